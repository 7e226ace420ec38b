"""Events of a run as TensorBoard scalars, written while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from puridiver.errors import DataError

# The kinds of events that are figures, and what places them: samples seen, or the number of the epoch in the run. Both
# are in the event itself, so that a resumed run goes on where it was.
STEPS = {"anytime": ("stream", "seen"), "task": ("task", "seen"), "epoch": ("memory epoch", "number")}
PLACES = ("event", "task", "seen", "epoch", "number")  # where an event stands, and not what it measures


@contextmanager
def tensorboard_log(folder: Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A listener that writes scalars. The folder is made at the first event: a run that cannot start leaves none."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise DataError("--tensorboard needs tensorboard: pip install 'puridiver[tensorboard]'") from error
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; name a folder for TensorBoard")
    writers: list[SummaryWriter] = []

    def write(event: dict[str, Any]) -> None:
        if event["event"] not in STEPS:  # events of other kinds are lists, for the report
            return
        if not writers:
            writers.append(SummaryWriter(str(folder)))
        group, step = STEPS[event["event"]]
        for name, value in event.items():
            if name not in PLACES and isinstance(value, int | float):
                writers[0].add_scalar(f"{group}/{name}", value, event[step])

    try:
        yield write
    finally:
        for writer in writers:
            writer.close()

"""Events of a run as TensorBoard scalars, written while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from puridiver.errors import DataError

# The kinds of events that are figures, and what places them: samples seen, or the number of the epoch in the run.
STEPS = {"anytime": ("stream", "seen"), "task": ("task", "seen"), "epoch": ("memory epoch", "number")}
PLACES = ("event", "task", "seen", "epoch", "number")  # where an event stands, and not what it measures


@contextlib.contextmanager
def tensorboard_log(folder: Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A listener that writes scalars to a folder."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise DataError("--tensorboard needs tensorboard: pip install 'puridiver[tensorboard]'") from error
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; name a folder for TensorBoard")
    with SummaryWriter(str(folder)) as writer:

        def write(event: dict[str, Any]) -> None:
            group, step = STEPS.get(event["event"], ("", ""))  # events of other kinds are lists, for the report
            for name, value in event.items() if group else ():
                if name not in PLACES and isinstance(value, int | float):
                    writer.add_scalar(f"{group}/{name}", value, event[step])

        yield write

"""Events of a run as TensorBoard scalars, written while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from puridiver.errors import DataError

# The kinds of events that are figures, and what places them: samples seen, or the number of the epoch in the run. Both
# are in the event itself, so that a resumed run goes on where it was.
STEPS = {"anytime": ("stream", "seen"), "task": ("task", "seen"), "epoch": ("memory epoch", "number")}
PLACES = ("event", "task", "seen", "epoch", "number")  # where an event stands, and not what it measures


@contextmanager
def tensorboard_logs(folder: str | None) -> Iterator[list[TensorBoardLog]]:
    """The log that writes to the folder, closed at the end; none where there is no folder."""
    log = TensorBoardLog(Path(folder)) if folder else None
    try:
        yield [log] if log else []
    finally:
        if log:
            log.close()


class TensorBoardLog:
    """A listener that writes scalars. The folder is made at the first event: a run that cannot start leaves none."""

    def __init__(self, folder: Path) -> None:
        try:
            import torch.utils.tensorboard  # noqa: F401  (before the work, not in the middle of it)
        except ImportError as error:
            raise DataError("--tensorboard needs tensorboard: pip install 'puridiver[tensorboard]'") from error
        if folder.exists() and not folder.is_dir():
            raise DataError(f"{folder} is a file; name a folder for TensorBoard")
        self.folder = folder

    def __call__(self, event: dict[str, Any]) -> None:
        """Write the figures of an event; events of other kinds are lists, for the report."""
        if event["event"] not in STEPS:
            return
        group, step = STEPS[event["event"]]
        for name, value in event.items():
            if name not in PLACES and isinstance(value, int | float):
                self._writer.add_scalar(f"{group}/{name}", value, event[step])

    @cached_property
    def _writer(self) -> Any:
        from torch.utils.tensorboard import SummaryWriter

        return SummaryWriter(str(self.folder))

    def close(self) -> None:
        if "_writer" in self.__dict__:
            self._writer.close()

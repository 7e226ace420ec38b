"""Events of a run as TensorBoard scalars, written while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from puridiver.errors import DataError

GROUPS = {"anytime": "stream", "task": "task", "epoch": "memory epoch"}  # other events are lists, for the report
PLACES = ("event", "task", "seen", "epoch")  # what an event is placed by, not what it measures


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
    """Figures along the stream go by samples seen, those of memory epochs by the number of the epoch in the run.

    Both are in the event itself, so that a run which is continued goes on where it was. The folder is made at the
    first event: a run that cannot start leaves none.
    """

    def __init__(self, folder: Path) -> None:
        try:
            import torch.utils.tensorboard  # noqa: F401  (before the work, not in the middle of it)
        except ImportError as error:
            raise DataError("--tensorboard needs tensorboard: pip install 'puridiver[tensorboard]'") from error
        if folder.exists() and not folder.is_dir():
            raise DataError(f"{folder} is a file; name a folder for TensorBoard")
        self.folder = folder

    def listener(self, epochs: Sequence[int]) -> Callable[[dict[str, Any]], None]:
        """What has to hear every event of a run that has so many memory epochs in each task."""
        return partial(self._write, epochs)

    @cached_property
    def _writer(self) -> Any:
        from torch.utils.tensorboard import SummaryWriter

        return SummaryWriter(str(self.folder))

    def close(self) -> None:
        if "_writer" in self.__dict__:
            self._writer.close()

    def _write(self, epochs: Sequence[int], event: dict[str, Any]) -> None:
        group = GROUPS.get(event["event"])
        if group is None:
            return
        step = sum(epochs[: event["task"]]) + event["epoch"] + 1 if event["event"] == "epoch" else event["seen"]
        for name, value in event.items():
            if name not in PLACES and isinstance(value, int | float):
                self._writer.add_scalar(f"{group}/{name}", value, step)

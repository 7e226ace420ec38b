"""Events of a run as TensorBoard scalars, written while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from puridiver.errors import DataError

GROUPS = {"anytime": "stream", "task": "task", "epoch": "memory epoch"}  # other events are lists, for the report
PLACES = ("event", "task", "seen", "epoch")  # what an event is placed by, not what it measures


@contextmanager
def tensorboard_listeners(folder: str | None) -> Iterator[list[TensorBoardLog]]:
    """What has to hear a run's events so that they reach the folder; nothing where there is none."""
    log = TensorBoardLog(Path(folder)) if folder else None
    try:
        yield [log] if log else []
    finally:
        if log:
            log.close()


class TensorBoardLog:
    """Call it with every event. Figures along the stream go by samples seen, those of memory epochs by their count.

    The folder is made at the first event: a run that cannot start leaves none.
    """

    def __init__(self, folder: Path) -> None:
        try:
            import torch.utils.tensorboard  # noqa: F401  (before the work, not in the middle of it)
        except ImportError as error:
            raise DataError("--tensorboard needs tensorboard: pip install 'puridiver[tensorboard]'") from error
        if folder.exists() and not folder.is_dir():
            raise DataError(f"{folder} is a file; name a folder for TensorBoard")
        self.folder = folder
        self._epochs = 0

    @cached_property
    def _writer(self) -> Any:
        from torch.utils.tensorboard import SummaryWriter

        return SummaryWriter(str(self.folder))

    def close(self) -> None:
        if "_writer" in self.__dict__:
            self._writer.close()

    def __call__(self, event: dict[str, Any]) -> None:
        group = GROUPS.get(event["event"])
        if group is None:
            return
        self._epochs += event["event"] == "epoch"
        step = event.get("seen", self._epochs)
        for name, value in event.items():
            if name not in PLACES and isinstance(value, int | float):
                self._writer.add_scalar(f"{group}/{name}", value, step)

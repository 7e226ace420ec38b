"""Events of a run as TensorBoard scalars, written while it runs."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from puridiver.errors import DataError

# What an event is placed by, not what it measures.
PLACES = ("event", "task", "seen", "epoch")


class TensorBoardLog:
    """Call it with every event. Figures along the stream go by samples seen, those of memory epochs by their count."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise DataError("--tensorboard needs tensorboard: pip install 'puridiver[tensorboard]'") from error
        if folder.exists() and not folder.is_dir():
            raise DataError(f"{folder} is a file; name a folder for TensorBoard")
        self._writer = SummaryWriter(str(folder))
        self._epochs = 0

    def __enter__(self) -> TensorBoardLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()

    def __call__(self, event: dict[str, Any]) -> None:
        group, step = (
            {"anytime": "stream", "task": "task", "epoch": "memory epoch"}.get(event["event"]),
            event.get("seen"),
        )
        if group is None:  # lists of samples, which are for the report
            return
        if group == "memory epoch":
            self._epochs += 1
            step = self._epochs
        for name, value in event.items():
            if name not in PLACES and isinstance(value, int | float):
                self._writer.add_scalar(f"{group}/{name}", value, step)

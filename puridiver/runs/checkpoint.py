"""The checkpoint of a run: its state at a safe point, written in the background."""

import contextlib
import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from torch import Tensor

from puridiver import files
from puridiver.errors import DataError
from puridiver.learner import storage

logger = logging.getLogger(__name__)


class Checkpoint:
    """Saves and loads the state of the run whose identity is `run`, due each `every` seconds (0: never by time)."""

    def __init__(self, folder: Path, run: str = "", every: float = 0) -> None:
        if not 0 <= every < float("inf"):
            raise ValueError(f"seconds between checkpoints should be at least 0, but got {every}")
        self.folder, self.run, self.every = folder, run, every
        self._last = time.monotonic()
        self._failing = False
        self._under_way: Future[None] | None = None

    def due(self) -> bool:
        """Whether the interval has passed since the last save, or the last attempt at one."""
        return self.every > 0 and time.monotonic() - self._last >= self.every

    def begin_save(self, settings: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Wait for the previous save, copy the state, and write it in the background."""
        self.wait()
        frozen = storage.freeze({"run": self.run, **settings}, tensors)
        self._last = time.monotonic()
        writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._under_way = writer.submit(self._write, frozen)
        writer.shutdown(wait=False)  # its thread ends with this one task

    def _write(self, frozen: storage.State) -> None:
        storage.write(self.folder, frozen)
        files.sync_folder(self.folder.parent)

    def wait(self) -> None:
        """Wait until the state is on the disk. If it does not fit, warn; the older one stays."""
        try:
            if self._under_way is not None:
                self._under_way.result()
                self._failing = False
        except OSError as error:
            if not self._failing:
                logger.warning("no checkpoint could be written, the run goes on without: %s", error)
            self._failing = True
        self._under_way = None  # only now: Ctrl-C while waiting must not lose track of it

    def load(self) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        """The saved state; None without one, and a `DataError` if it is damaged or of another run."""
        if not (self.folder / storage.FILE).exists():  # never saved, or killed amid the first save
            return None
        try:
            settings, tensors = storage.load(self.folder)
            if settings.pop("run", None) != self.run:
                raise DataError(f"{self.folder} belongs to another run")
        except DataError as error:
            raise DataError(f"there is no checkpoint to go on from: {error}; --force starts the run afresh") from error
        return settings, tensors

    def remove(self) -> None:
        """Remove the saved state, and nothing else that is in its folder."""
        self.wait()
        remove_save(self.folder)


def remove_save(folder: Path) -> None:
    """Remove a saved state, and its folder if nothing else is in it; a link is not followed."""
    if folder.is_symlink():
        return
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if storage.is_of_a_save(path.name) or path.name == storage.LOCK:
                path.unlink(missing_ok=True)
        folder.rmdir()

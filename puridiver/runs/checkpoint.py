"""The checkpoints of a run: two saves that take turns, so that a damaged one leaves the one before it."""

from __future__ import annotations

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


class Checkpoints:
    """Saves and loads the state of the run whose identity is `run`, due each `every` seconds (0: never by time)."""

    def __init__(self, folder: Path, run: str = "", every: float = 0) -> None:
        if not 0 <= every < float("inf"):
            raise ValueError(f"seconds between checkpoints should be at least 0, but got {every}")
        self.folder, self.run, self.every = folder, run, every
        self.places = folder / "even", folder / "odd"
        self._number = 0  # of the newest save
        self._last = time.monotonic()
        self._failing = False
        self._under_way: Future[None] | None = None

    def due(self) -> bool:
        """Whether the interval has passed since the last checkpoint, or the last attempt at one."""
        return self.every > 0 and time.monotonic() - self._last >= self.every

    def begin_save(self, settings: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Wait for the save before, copy the state, and write it while the caller goes on."""
        self.wait()
        self._number += 1
        frozen = storage.freeze({"run": self.run, "number": self._number, **settings}, tensors)
        self._last = time.monotonic()
        writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._under_way = writer.submit(self._write, self.places[self._number % 2], frozen)
        writer.shutdown(wait=False)  # its thread ends with this one task

    def wait(self) -> None:
        """Wait until the checkpoint is on the disk. If it does not fit, warn and keep the older ones."""
        try:
            if self._under_way is not None:
                self._under_way.result()
                self._failing = False
        except OSError as error:
            if not self._failing:
                logger.warning("no checkpoint could be written, the run goes on without: %s", error)
            self._failing = True
            self._number -= 1  # the next takes the same place, and not that of the last good one
        self._under_way = None  # not before: a Ctrl-C while waiting must not make it forgotten

    def load(self) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        """The newest checkpoint that is whole and of this run, with a warning if one is not; None without any."""
        found, faults = [], []
        for place in self.places:
            if not (place / storage.FILE).exists():  # killed amid its first save
                continue
            try:
                settings, tensors = storage.load(place)
                if settings.pop("run", None) != self.run:
                    raise DataError(f"{place} belongs to another run")
                found.append((settings.pop("number"), settings, tensors))
            except DataError as error:
                faults.append(str(error))
        told = "; ".join(faults)
        if faults and not found:
            raise DataError(f"{self.folder} holds no checkpoint to go on from: {told}; --force starts the run afresh")
        if faults:
            logger.warning("%s; going on from the other checkpoint", told)
        if not found:
            return None
        self._number, settings, tensors = max(found, key=lambda save: save[0])
        return settings, tensors

    def remove(self) -> None:
        """Remove the checkpoints, and nothing else that is in their folder."""
        self.wait()
        for place in self.places:
            remove_save(place)
        with contextlib.suppress(OSError):  # it was never made, is a link, or something else is in it
            self.folder.rmdir()

    def _write(self, place: Path, frozen: storage.State) -> None:
        storage.write(place, frozen)
        for parent in (self.folder, self.folder.parent):
            files.sync_folder(parent)


def remove_save(folder: Path) -> None:
    """Remove a saved state, and its folder if nothing else is in it; a link is not followed."""
    if folder.is_symlink():
        return
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if storage.is_of_a_save(path.name) or path.name == storage.LOCK:
                path.unlink(missing_ok=True)
        folder.rmdir()

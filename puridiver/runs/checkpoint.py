"""The checkpoints of a run: numbered saves of which the newest two are kept, so that one is always whole.

A save counts once its index (`state.json`) is there. If the newest turns out to be damaged, the one before is used.
"""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
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
        self._last = time.monotonic()
        self._bad: list[Path] = []  # found damaged or foreign by `load`
        self._failing = False
        self._under_way: Future[None] | None = None

    def due(self) -> bool:
        """Whether the interval has passed since the last checkpoint, or the last attempt at one."""
        return self.every > 0 and time.monotonic() - self._last >= self.every

    def begin_save(self, settings: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Wait for the save before, copy the state, and write it while the caller goes on."""
        self.wait()
        frozen = storage.freeze({"run": self.run, **settings}, tensors)
        self._last = time.monotonic()
        writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._under_way = writer.submit(self._write, frozen)
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
        self._under_way = None  # not before: a Ctrl-C while waiting must not make it forgotten

    def load(self) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        """The newest checkpoint that is whole and of this run, with a warning if others are newer; None without any."""
        faults = []
        for path in reversed(self._whole()):
            try:
                settings, tensors = storage.load(path)
                if settings.pop("run", None) != self.run:
                    raise DataError(f"{path} belongs to another run")
            except DataError as error:
                faults.append(str(error))
                self._bad.append(path)
                continue
            if faults:
                logger.warning("%s; going on from the checkpoint before it", "; ".join(faults))
            return settings, tensors
        if faults:
            told = f"{self.folder} holds no checkpoint to go on from: {'; '.join(faults)}"
            raise DataError(f"{told}; nothing was changed; --force starts the run afresh")
        return None

    def remove(self) -> None:
        """Remove the checkpoints, and nothing else that is in their folder."""
        self.wait()
        for path in self._numbered():
            remove_save(path)
        with contextlib.suppress(OSError):  # it was never made, is a link, or something else is in it
            self.folder.rmdir()

    def _write(self, frozen: storage.State) -> None:
        older = self._whole()
        path = self.folder / f"{max((int(path.name) for path in older), default=0) + 1:06}"
        if path.exists():  # an unfinished save
            shutil.rmtree(path)
        try:
            storage.write(path, frozen)
            for parent in (self.folder, self.folder.parent):
                files.sync_folder(parent)
        except OSError:
            shutil.rmtree(path, ignore_errors=True)  # a full disk needs the room
            raise
        good = [save for save in older if save not in self._bad]
        for old in set(self._numbered()) - {path, *good[-1:]}:
            remove_save(old)

    def _whole(self) -> list[Path]:
        """Those that were saved to the end, oldest first."""
        return [path for path in self._numbered() if (path / storage.INDEX).exists()]

    def _numbered(self) -> list[Path]:
        found = (path for path in self.folder.glob("*") if re.fullmatch(r"\d{6,18}", path.name) and path.is_dir())
        return sorted(found, key=lambda path: int(path.name))


def remove_save(folder: Path) -> None:
    """Remove a saved state, its index first, and its folder if nothing else is in it; a link is not followed."""
    if folder.is_symlink():
        return
    with contextlib.suppress(OSError):
        own = [path for path in folder.iterdir() if storage.is_of_a_save(path.name) or path.name == storage.LOCK]
        for path in sorted(own, key=lambda path: path.name != storage.INDEX):
            path.unlink(missing_ok=True)
        folder.rmdir()

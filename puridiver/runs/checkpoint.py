"""The checkpoints of a run: numbered saves of which the newest two are kept, so that one is always whole.

checkpoint/000007/          the one before: what is used if the newest turns out to be damaged
checkpoint/000008/          the newest; it counts once its index (`state.json`) is there
checkpoint/damaged-000006/  could not be read; kept for whoever wants to know why
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

KEPT = 2
DAMAGED = "damaged-"
NUMBER = re.compile(r"\d{6,18}")


class Checkpoints:
    """Saves and loads the state of one run.

    Parameters
    ----------
    folder
        Where the checkpoints lie; it need not exist yet.
    run
        The identity of the run: a checkpoint with another one belongs to another run.
    every
        Seconds after which the next checkpoint is due; 0: never by time.
    """

    def __init__(self, folder: Path, run: str = "", every: float = 0) -> None:
        if not 0 <= every < float("inf"):
            raise ValueError(f"seconds between checkpoints should be at least 0, but got {every}")
        self.folder, self.run, self.every = folder, run, every
        self._last = time.monotonic()
        self._bad: list[Path] = []  # found damaged or foreign by `load`
        self._failing = False
        self._under_way: Future[bool] | None = None

    def due(self) -> bool:
        """Whether the interval has passed since the last checkpoint, or the last attempt at one."""
        return self.every > 0 and time.monotonic() - self._last >= self.every

    def begin_save(self, settings: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Copy the state, and write it while the caller goes on: hashing and the disk take longer than the copy.

        One at a time: the checkpoint before is waited for.
        """
        self.wait()
        frozen = storage.freeze({"run": self.run, **settings}, tensors)
        self._last = time.monotonic()
        writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._under_way = writer.submit(self._try_to_write, frozen)
        writer.shutdown(wait=False)  # its thread ends with this one task

    def wait(self) -> bool:
        """Wait until the checkpoint is on the disk; False where it could not be written."""
        written = self._under_way is None or self._under_way.result()
        self._under_way = None  # not before: a Ctrl-C while waiting must not make it forgotten
        return written

    def load(self) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        """The newest checkpoint that is whole and of this run; None where the run has not come to its first one.

        A damaged or foreign one is left as it is: a warning says that the one before it is used.
        """
        whole = self._whole()
        faults = []
        for path in reversed(whole):
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
        unfinished = [path for path in self._numbered() if path not in whole]
        if unfinished and _number(unfinished[-1]) > 1:
            faults.append(f"the checkpoints before {unfinished[-1].name} are missing")
        if faults:
            raise DataError(
                f"{self.folder} holds no checkpoint to go on from: {'; '.join(faults)}; "
                "nothing was changed; --force starts the run afresh"
            )
        return None

    def remove(self, all: bool = False) -> None:
        """Remove the checkpoints of a finished run; what was set aside as damaged goes only with `all`."""
        self.wait()
        for path in [*self._numbered(), *(self._numbered(DAMAGED) if all else [])]:
            remove_save(path)
        if not self.folder.is_symlink():
            with contextlib.suppress(OSError):  # it was never made, or something else is in it
                self.folder.rmdir()

    # Inside ----------------------------------------------------------------------------------------------------

    def _try_to_write(self, frozen: storage.Frozen) -> bool:
        """Where it fails (disk full) the older ones stay and a warning says so once."""
        try:
            self._write(frozen)
        except OSError as error:
            if not self._failing:
                logger.warning("no checkpoint could be written, the run goes on without: %s", error)
            self._failing = True
            return False
        self._failing = False
        return True

    def _write(self, frozen: storage.Frozen) -> None:
        while self._bad:
            self._bad[-1].rename(self._bad[-1].with_name(DAMAGED + self._bad[-1].name))
            self._bad.pop()
        older = self._whole()
        numbers = [_number(path) for path in (*older, *self._numbered(DAMAGED))]
        path = self.folder / f"{max(numbers, default=0) + 1:06}"
        if path.exists():  # a save that did not come to its end
            shutil.rmtree(path)
        try:
            storage.write(path, frozen)
            for parent in (self.folder, self.folder.parent):
                files.sync_folder(parent)
        except OSError:
            shutil.rmtree(path, ignore_errors=True)  # a full disk needs the room
            raise
        kept = {path, *older[1 - KEPT :]}
        for old in self._numbered():
            if old not in kept:
                remove_save(old)  # the new one is in place, whatever becomes of this

    def _whole(self) -> list[Path]:
        """Those that were saved to the end."""
        return [path for path in self._numbered() if (path / storage.INDEX).exists()]

    def _numbered(self, prefix: str = "") -> list[Path]:
        """The folders of checkpoints, oldest first, whole or not."""
        if not self.folder.is_dir():
            return []
        paths = (path for path in self.folder.iterdir() if path.name.startswith(prefix) and path.is_dir())
        return sorted((path for path in paths if NUMBER.fullmatch(path.name.removeprefix(prefix))), key=_number)


def _number(path: Path) -> int:
    return int(path.name.removeprefix(DAMAGED))


def remove_save(folder: Path) -> None:
    """Remove a saved state, its index first, and its folder if nothing else is in it; a link is not followed."""
    if not folder.is_dir() or folder.is_symlink():
        return
    with contextlib.suppress(OSError):
        own = [path for path in folder.iterdir() if storage.is_of_a_save(path.name) or path.name == storage.LOCK]
        for path in sorted(own, key=lambda path: path.name != storage.INDEX):
            path.unlink(missing_ok=True)
        folder.rmdir()

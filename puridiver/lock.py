"""A lock between processes, so that two of them do not write over each other's files."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from puridiver.errors import BusyError

POLL_SECONDS = 0.1


@contextmanager
def file_lock(path: Path, wait_seconds: float = 3600.0, what: str = "this data") -> Iterator[None]:
    """Hold the lock file `path`, waiting for whoever holds it; `what` is locked, in the words of the error.

    The operating system drops the lock when its process ends, so a killed process never blocks the next one.
    """
    descriptor = _acquire(path, time.monotonic() + wait_seconds, what)
    try:
        yield
    finally:
        with suppress(OSError):  # Windows does not remove an open file; an empty lock file does no harm
            path.unlink()
        os.close(descriptor)


def _acquire(path: Path, deadline: float, what: str) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if _try_lock(descriptor):
            if _is_still_at(path, descriptor):
                return descriptor
            os.close(descriptor)  # the former holder removed this file: lock the one that took its place
            continue
        os.close(descriptor)
        if time.monotonic() >= deadline:
            raise BusyError(f"another process is still busy with {what}: it holds the lock {path}")
        time.sleep(POLL_SECONDS)


def _is_still_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

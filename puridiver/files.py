"""Files that survive crashes and other processes: atomic writes and a lock between processes."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from puridiver.errors import BusyError, DataError

POLL_SECONDS = 0.1


def check_writable(path: Path) -> None:
    """Looks only: what exists of the path must allow the rest to be written."""
    existing = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if existing != path and not existing.is_dir():
        raise DataError(f"{path} cannot be written: {existing} is a file")
    if not os.access(existing, os.W_OK):
        raise DataError(f"{path} cannot be written: no permission in {existing}, or it is read-only")


def write_atomically(path: Path, content: bytes | memoryview) -> None:
    """The file has its old content or all of the new one, never a part, even after a power cut.

    A link stays one, and what is no file (a device, a pipe) is written to instead of replaced.
    """
    path = path.resolve()
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_bytes(content)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:  # of the file that was meant, and not of the temporary one
        if error.errno is None:
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from None
    finally:
        with suppress(OSError):  # a folder that cannot be written to; what is wrong was told already
            temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the disk knows the names in a folder: a replaced or new file is safe only then."""
    if os.name != "posix":  # other systems neither need it nor can open a folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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

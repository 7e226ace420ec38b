"""File helpers: crash-safe writes, reads of regular files only, strict JSON, and a lock between processes."""

import errno
import json
import math
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from puridiver.errors import BusyError, DataError, first_line


def check_writable(path: Path) -> None:
    """Raise a `DataError` if the path cannot be written; nothing is created."""
    existing = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if existing != path and not existing.is_dir():
        raise DataError(f"{path} cannot be written: {existing} is a file")
    if not os.access(existing, os.W_OK):
        raise DataError(f"{path} cannot be written: no permission in {existing}, or it is read-only")


def write_atomically(path: Path, content: bytes | memoryview) -> None:
    """Replace the file: it has its old content or all of the new one, never a part, even after a power cut.

    A link, a pipe or a device at the path is replaced, too, and never written through. Only names in /dev are.
    """
    if path.absolute().is_relative_to("/dev"):
        path.write_bytes(content)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        temporary.unlink(missing_ok=True)  # "x" below refuses a link that somebody planted
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:  # name the file that was meant, and not the temporary one
        if error.errno is None:
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from None
    finally:
        with suppress(OSError):  # a folder that cannot be written to; the error above says so
            temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk: only then is a new or replaced file safe."""
    if os.name != "posix":  # other systems neither need it nor can open a folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, and flush them to disk."""
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in new:
        sync_folder(each.parent)


def append_line(path: Path, line: str) -> None:
    """Append one line to a regular file in one write: all of it or, where the disk is full, nothing."""
    content = (line + "\n").encode()
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NONBLOCK", 0)
    with os.fdopen(os.open(path, flags, 0o666), "r+b", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise DataError(f"{path} is not a regular file")
        start = file.seek(0, os.SEEK_END)
        if start:
            file.seek(start - 1)
            if file.read(1) != b"\n":
                content = b"\n" + content  # an editor may have left the last line without its end
        try:
            write_whole(file, content, path)
        except OSError:
            file.truncate(start)
            raise


def write_whole(file: BinaryIO, content: bytes, path: Path) -> None:
    """Write to an unbuffered file in one call, and flush it to disk. A write of a part alone means a full disk."""
    if file.write(content) != len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    os.fsync(file.fileno())


def open_regular(path: Path | str) -> BinaryIO:
    """Open a regular file to read bytes; a device, a pipe or a folder is a `DataError`, links are followed."""
    try:  # without waiting for the writer of a pipe
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise DataError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise DataError(f"{path} cannot be read: it is not a regular file")
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path) -> bytes:
    """The content of a regular file."""
    with open_regular(path) as file:
        try:
            return file.read()
        except OSError as error:  # a damaged disk, or a file of the system that only looks regular
            raise DataError(f"{path} cannot be read: {error.strerror}") from error


def read_json(path: Path) -> Any:
    """The content of a JSON file; a `DataError` names one that is damaged."""
    return parse_json(read_regular(path), str(path))


def parse_json(content: bytes | str, where: str) -> Any:
    """Parse JSON; a `DataError` says where it is damaged."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is damaged: {first_line(error)}") from error


def check_json(value: Any, kind: Any, where: str, field: str = "its content") -> Any:
    """Return the value if it is of a kind; else a `DataError` names the place and the field.

    A kind is a type, (kind, None) if null is allowed, [kind, length or None], or {field: kind}, where the field `str`
    stands for all. Numbers are finite.
    """
    if isinstance(kind, tuple):
        return value if value is None else check_json(value, kind[0], where, field)
    wanted = kind if isinstance(kind, type) else type(kind)
    fits = type(value) is wanted or (wanted is float and type(value) is int)
    if not fits or (wanted in (int, float) and not abs(value) < 2**63):  # nan is not smaller
        raise DataError(f"{where} is damaged: {field} should be of type {wanted.__name__}, but is {value!r:.60}")
    if wanted is list and kind[1] not in (None, len(value)):
        raise DataError(f"{where} is damaged: {field} should have {kind[1]} entries, but has {len(value)}")
    for part in value if wanted is list else ():
        check_json(part, kind[0], where, field)
    for name, part in kind.items() if wanted is dict else ():
        for key in value if name is str else [name]:
            check_json(value.get(key), part, where, key if field == "its content" else f"{field}.{key}")
    return value


def to_json(value: Any, indent: int | None = None) -> str:
    """Strict JSON: nan and infinity, which JSON does not have, become null."""
    lenient = json.loads(json.dumps(value), parse_constant=lambda constant: None)
    return json.dumps(lenient, indent=indent, allow_nan=False)


@contextmanager
def file_lock(path: Path, wait_seconds: float = 3600.0, what: str = "this data") -> Iterator[None]:
    """Hold the lock file `path`, waiting for whoever holds it; the system drops the lock of a killed process."""
    lock = FileLock(path, timeout=-1 if math.isinf(wait_seconds) else wait_seconds, thread_local=False)
    try:
        lock.acquire(poll_interval=0.1)
    except Timeout:
        raise BusyError(f"another process is still busy with {what}: it holds the lock {path}") from None
    try:
        yield
    finally:
        with suppress(OSError):  # other systems do not remove an open file; an empty lock file does no harm
            path.unlink()  # still held: filelock notices that the file is gone, and tries again with a new one
        lock.release()

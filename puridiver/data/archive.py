"""Unpack a .tar.gz safely and all at once: the folder appears whole, or not at all."""

from __future__ import annotations

import filecmp
import gzip
import logging
import os
import shutil
import tarfile
import zlib
from pathlib import Path, PurePosixPath, PureWindowsPath

from puridiver.errors import DataError
from puridiver.files import file_lock

logger = logging.getLogger(__name__)


def unpack(archive: Path, into: Path, top: str) -> Path:
    """Unpack `archive`, whose members all lie in the folder `top`, and return `into / top`.

    A folder that already holds every file of the archive, byte for byte, is left alone; one that does not
    is set aside under another name, never deleted.
    """
    into.mkdir(parents=True, exist_ok=True)
    with file_lock(into / f".{top}.lock"):
        scratch = into / f".{top}.unpacking"
        if scratch.exists():  # left by a killed process: we hold the lock, so nobody works in it
            shutil.rmtree(scratch)
        try:
            _extract(archive, scratch, top)
            _put_in_place(scratch / top, into / top)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return into / top


def _extract(archive: Path, scratch: Path, top: str) -> None:
    if not archive.is_file():
        raise DataError(f"there is no archive {archive} to unpack")
    try:
        with tarfile.open(archive, "r:gz") as tar:
            members = tar.getmembers()
            for member in members:
                _require_safe(member, archive, top)
            scratch.mkdir()
            tar.extractall(scratch, members, filter="data")
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{archive} is not a whole .tar.gz archive: {error}") from error
    if not (scratch / top).is_dir():
        raise DataError(f"{archive} should hold the folder {top}, but it does not")


def _require_safe(member: tarfile.TarInfo, archive: Path, top: str) -> None:
    path = PurePosixPath(member.name)
    if not (member.isfile() or member.isdir()):
        fault = "is a link or a device"
    elif path.is_absolute() or ".." in path.parts:
        fault = "points outside the folder"
    elif "\\" in member.name or PureWindowsPath(member.name).drive:
        fault = "is a Windows path"
    elif path.parts[:1] != (top,) and not (member.isdir() and not path.parts):  # "./" itself is harmless
        fault = "lies elsewhere"
    else:
        return
    raise DataError(f"{archive} was not unpacked: it should hold only files under {top}/, but {member.name!r} {fault}")


def _put_in_place(fresh: Path, final: Path) -> None:
    if os.path.lexists(final):
        if _holds_all_of(fresh, final):
            return
        aside = _free_name(final)
        os.rename(final, aside)
        logger.warning("%s was incomplete or damaged; it was set aside as %s", final, aside)
    os.rename(fresh, final)


def _holds_all_of(fresh: Path, existing: Path) -> bool:
    files = (path.relative_to(fresh) for path in fresh.rglob("*") if path.is_file())
    return all(
        (existing / file).is_file() and filecmp.cmp(fresh / file, existing / file, shallow=False) for file in files
    )


def _free_name(folder: Path) -> Path:
    number = 1
    while (candidate := folder.with_name(f"{folder.name}.damaged-{number}")).exists():
        number += 1
    return candidate

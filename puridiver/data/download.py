"""Fetch a data set: download its archive with pooch, which compares the checksum, and unpack it safely."""

from __future__ import annotations

import logging
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import pooch

from puridiver.data.sources import default_root, find, verify
from puridiver.errors import DataError, DownloadError, first_line
from puridiver.files import file_lock

logger = logging.getLogger(__name__)

Progress = Callable[[int, int | None], None]


def fetch_source(name: str, root: Path | None = None, url: str | None = None, progress: Progress | None = None) -> Path:
    """Download and unpack a data set unless a good copy is here. Returns its folder.

    `url` is another place that serves the same archive; the checksum must match. `progress` is called with the bytes
    that are here and the bytes expected (None where the server does not say).
    """
    source, root = find(name), Path(root or default_root()).expanduser()
    if source.archive is None:
        why = "it is here already" if source.is_here(root) else f"get it from {source.home_page} (docs/data.md)"
        raise ValueError(f"{name} has no archive to fetch: {why}")
    folder, target = root / source.archive.folder, root / Path(source.archive.url).name
    if source.is_here(root) and not verify(name, root):
        return folder if folder.is_dir() else root  # `root` may be the folder itself
    root.mkdir(parents=True, exist_ok=True)
    with file_lock(root / f".{folder.name}.lock"):
        fetch(url or source.archive.url, target, source.archive.md5, progress)
        unpack(target, folder)
    return folder


def fetch(url: str, target: Path, md5: str, progress: Progress | None = None) -> None:
    """Download `url` to `target` unless a file with the right checksum is there. It appears whole, or not at all."""
    if url.partition(":")[0] not in ("http", "https"):
        raise ValueError(f"url should start with http or https, but got {url!r}")
    pooch.get_logger().setLevel(logging.WARNING)
    bar = _progress_bar(progress) if progress else False
    downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, timeout=30)
    try:
        pooch.retrieve(url, f"md5:{md5}", target.name, target.parent, downloader=downloader)
    except Exception as error:  # of requests, urllib3, the file system, and ValueError for another checksum
        raise DownloadError(
            f"could not fetch {url}: {first_line(error)}. Nothing was changed. Run the same command again, try "
            f"another --url, or place the file by hand at {target} and run it again."
        ) from error


def _progress_bar(report: Progress) -> Any:
    """A progress bar as pooch wants one."""
    bar: Any = SimpleNamespace(total=None, done=0, reset=lambda: setattr(bar, "done", 0), close=lambda: None)

    def update(amount: int) -> None:
        bar.done += amount
        report(bar.done, bar.total or None)

    bar.update = update
    return bar


def unpack(archive: Path, folder: Path) -> None:
    """Unpack `archive`, whose members all lie in a folder of that name. One that is there already is set aside."""
    scratch = folder.with_name(f".{folder.name}.unpacking")
    shutil.rmtree(scratch, ignore_errors=True)  # left by a killed process: we hold the lock
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar.getmembers():
                inside = PurePosixPath(member.name).parts[:1] == (folder.name,)
                if not inside or not (member.isfile() or member.isdir()):
                    raise DataError(f"it should hold only files under {folder.name}/, but holds {member.name!r}")
            tar.extractall(scratch, filter="data")
        if os.path.lexists(folder) and (scratch / folder.name).is_dir():
            aside = next(name for n in range(1, 10**6) if not (name := Path(f"{folder}.old-{n}")).exists())
            os.rename(folder, aside)
            logger.warning("%s was incomplete or damaged; it is now %s", folder, aside)
        os.rename(scratch / folder.name, folder)
    except Exception as error:  # tarfile, gzip and zlib raise many kinds at damaged bytes
        raise DataError(f"{archive} was not unpacked: {first_line(error)}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)

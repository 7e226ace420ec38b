"""Fetch a data set: download its archive with pooch, compare the checksum, unpack safely."""

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

from puridiver.data.sources import default_root, find
from puridiver.errors import DataError, DownloadError, first_line
from puridiver.files import file_lock

logger = logging.getLogger(__name__)

Progress = Callable[[int, int | None], None]


def fetch_source(name: str, root: Path | None = None, url: str | None = None, progress: Progress | None = None) -> Path:
    """Download and unpack a data set unless a good copy is here. Returns its folder.

    `url` is another place that serves the same archive; the checksum must match.
    """
    source, root = find(name), Path(root or default_root()).expanduser()
    if source.archive is None:
        raise ValueError(f"{name} is not fetched here: {source.title}; its home is {source.home_page}")
    folder = root / source.archive.folder
    if source.is_here(root) and not source.problems(root):
        return folder if folder.is_dir() else root  # `root` may be the folder itself
    archive = fetch(url or source.archive.url, root / Path(source.archive.url).name, source.archive.md5, progress)
    return unpack(archive, root, source.archive.folder)


def fetch(url: str, target: Path, md5: str, progress: Progress | None = None) -> Path:
    """Download `url` to `target` unless a file with the right checksum is there. It appears whole, or not at all.

    `progress` is called with the bytes that are here and the bytes expected (None where the server does not say).
    """
    if url.partition(":")[0] not in ("http", "https"):
        raise ValueError(f"url should start with http or https, but got {url!r}")
    target.parent.mkdir(parents=True, exist_ok=True)
    pooch.get_logger().setLevel(logging.WARNING)
    bar = _progress_bar(progress) if progress else False
    downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, timeout=30)
    with file_lock(target.with_name(f".{target.name}.lock")):
        try:
            pooch.retrieve(url, f"md5:{md5}", target.name, target.parent, downloader=downloader)
        except Exception as error:  # of requests, urllib3, the file system, and ValueError for another checksum
            raise DownloadError(
                f"could not fetch {url}: {first_line(error)}. Nothing was changed. Run the same command again, try "
                f"another --url, or place the file by hand at {target} and run it again."
            ) from error
    return target


def _progress_bar(report: Progress) -> Any:
    """A progress bar as pooch wants one."""
    bar: Any = SimpleNamespace(total=None, done=0, reset=lambda: setattr(bar, "done", 0), close=lambda: None)

    def update(amount: int) -> None:
        bar.done += amount
        report(bar.done, bar.total or None)

    bar.update = update
    return bar


def unpack(archive: Path, into: Path, top: str) -> Path:
    """Unpack `archive`, whose members all lie in the folder `top`, and return `into / top`.

    A folder of that name that is there already gets another name; nothing is deleted.
    """
    into.mkdir(parents=True, exist_ok=True)
    scratch, final = into / f".{top}.unpacking", into / top
    with file_lock(into / f".{top}.lock"):
        shutil.rmtree(scratch, ignore_errors=True)  # left by a killed process: we hold the lock
        try:
            with tarfile.open(archive, "r:gz") as tar:
                for member in tar.getmembers():
                    inside = PurePosixPath(member.name).parts[:1] == (top,)
                    if not inside or not (member.isfile() or member.isdir()):
                        raise DataError(f"it should hold only files under {top}/, but holds {member.name!r}")
                tar.extractall(scratch, filter="data")
            if not (scratch / top).is_dir():
                raise DataError(f"it should hold the folder {top}")
            if os.path.lexists(final):
                aside = next(name for n in range(1, 10**6) if not (name := final.with_name(f"{top}.old-{n}")).exists())
                os.rename(final, aside)
                logger.warning("%s was incomplete or damaged; it is now %s", final, aside)
            os.rename(scratch / top, final)
        except Exception as error:  # tarfile, gzip and zlib raise many kinds at damaged bytes
            raise DataError(f"{archive} was not unpacked: {first_line(error)}") from error
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return final

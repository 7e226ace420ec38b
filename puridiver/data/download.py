"""Fetch a data set: download its archive with pooch, which compares the checksum, and unpack it."""

from __future__ import annotations

import logging
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pooch

from puridiver.data.sources import default_root, find, verify
from puridiver.errors import DataError, DownloadError, first_line
from puridiver.files import file_lock

Progress = Callable[[int, int | None], None]


def fetch_source(name: str, root: Path | None = None, url: str | None = None, progress: Progress | None = None) -> Path:
    """Download and unpack a data set unless a good copy is here. Returns the folder that it lies in.

    `url` is another place that serves the same archive; the checksum must match. `progress` is called with the bytes
    that are here and the bytes expected (None where the server does not say).
    """
    source, root = find(name), Path(root or default_root()).expanduser()
    if source.archive is None:
        why = "it is here already" if source.find_folder(root) else f"get it from {source.home_page} (docs/data.md)"
        raise ValueError(f"{name} has no archive to fetch: {why}")
    if source.find_folder(root) and not verify(name, root):
        return root
    url, target = url or source.archive.url, root / Path(source.archive.url).name
    if not url.startswith(("http:", "https:")):
        raise ValueError(f"url should start with http or https, but got {url!r}")
    root.mkdir(parents=True, exist_ok=True)
    with file_lock(root / f".{name}.lock"):
        _download(url, target, source.archive.md5, progress)
        try:
            with tarfile.open(target) as tar:
                tar.extractall(root, filter="data")  # which refuses links and paths out of the folder
        except (tarfile.TarError, OSError) as error:
            raise DataError(f"{target} cannot be unpacked: {first_line(error)}") from error
    return root


def _download(url: str, target: Path, md5: str, progress: Progress | None) -> None:
    """Download unless a file with the right checksum is there. It appears whole, or not at all."""
    bar: Any = SimpleNamespace(total=None, done=0, reset=lambda: setattr(bar, "done", 0), close=lambda: None)

    def update(amount: int) -> None:
        bar.done += amount
        if progress:
            progress(bar.done, bar.total or None)

    bar.update = update  # a progress bar as pooch wants one
    pooch.get_logger().setLevel(logging.WARNING)
    downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, timeout=30)
    try:
        pooch.retrieve(url, f"md5:{md5}", target.name, target.parent, downloader=downloader)
    except Exception as error:  # of requests, urllib3, the file system, and ValueError for another checksum
        raise DownloadError(
            f"could not fetch {url}: {first_line(error)}. Nothing was changed. Run the same command again, try "
            f"another --url, or place the file by hand at {target} and run it again."
        ) from error

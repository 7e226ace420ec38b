"""Data by name: the data sets in `puridiver/data/sets`, or your own by the path of a folder, table or .npz file.

The archive of a data set is downloaded by pooch, which compares the checksum.
"""

import logging
import os
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import platformdirs

from puridiver.data.arrays import load_npz
from puridiver.data.base import DataSet, DataSource, FileOptions, OnProgress, check_test_share
from puridiver.discovery import member, members
from puridiver.errors import DataError, DownloadError, first_line
from puridiver.files import file_lock

PACKAGE = "puridiver.data.sets"
TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
Progress = Callable[[int, int | None], None]


def default_root() -> Path:
    """The folder of data sets: $PURIDIVER_DATA, or `puridiver` in the platform's cache folder."""
    chosen = os.environ.get("PURIDIVER_DATA") or platformdirs.user_cache_dir("puridiver", appauthor=False)
    return Path(chosen).expanduser()


def data_sets() -> dict[str, DataSet]:
    """The data sets by name, found by listing the folder."""
    return {name: kind() for name, kind in members(PACKAGE, DataSet).items()}


def find(name: str) -> DataSet:
    """The data set of that name."""
    if (found := member(PACKAGE, DataSet, name)) is None:
        missing = "" if Path(name).exists() else ", and there is no such file or folder"
        raise ValueError(
            f"data should be one of {', '.join(data_sets())}, a folder with a folder of images for each class, or a "
            f"file that ends in .npz, .csv, .jsonl or .parquet, but got {name!r}{missing}"
        )
    return found()


def own_kind(name: str) -> str:
    """The kind of a user's own data: "files" (a folder or table of images) or "arrays" (.npz); "" for a data set."""
    path = Path(name)
    kind = "files" if path.suffix.lower() in TABLES or path.is_dir() else "arrays" if path.suffix == ".npz" else ""
    return kind if kind and member(PACKAGE, DataSet, name) is None else ""


def load(
    name: str, root: Path | None = None, options: FileOptions | None = None, on_progress: OnProgress | None = None
) -> DataSource:
    """The data set called `name`, or your own if `name` is the path of a folder, a table or an .npz file.

    `root` is the folder of data sets and of the cache of decoded images; `default_root()` if left out.
    `on_progress` is called with (done, total) while image files are decoded.
    """
    options, root, kind = options or FileOptions(), Path(root or default_root()).expanduser(), own_kind(name)
    if kind == "files":
        from puridiver.data.image_files import list_own, load_listing  # imports pandas

        found = load_listing(list_own(Path(name), options.test_share), root, options, on_progress)
    elif kind == "arrays":
        found = load_npz(Path(name), options.test_share)
    else:
        data_set = find(name)
        check_test_share(name, True, options.test_share)
        found = data_set.load(root, options, on_progress)
    train, test = found.train, found.test
    if options.image_size is not None and train.names is None:
        raise ValueError(f"image_size is for data made of image files: leave it out with {name}")
    if options.trust_labels and train.true is not None:
        if train.truth_known:
            raise DataError(f"{name} tells the true labels of some images: leave --trust-labels out")
        some = test.verified is not None and bool(test.verified.any())
        found = replace(found, train=replace(train, true=None), test=test if some else replace(test, verified=None))
    return found


def verify(name: str, root: Path | None = None) -> list[str]:
    """What is wrong with a data set, one line each: missing or damaged files, unofficial content."""
    try:
        if not own_kind(name):
            return find(name).problems(Path(root or default_root()).expanduser())
        load(name, root)
    except DataError as error:
        return [str(error)]
    return []


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
    """Download the archive unless it is there with the right checksum; a failure leaves no partial file."""
    import pooch

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

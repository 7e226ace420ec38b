"""Data by name: the data sets in `puridiver/data/sets`, or your own by the path of a folder, table or .npz file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from puridiver.data.base import DataSet, DataSource, FileOptions, OnProgress
from puridiver.discovery import member, members
from puridiver.errors import DataError

PACKAGE = "puridiver.data.sets"
TABLES = (".csv", ".tsv", ".jsonl", ".parquet")


class _DataSets(Mapping[str, DataSet]):
    """The data sets by name, found by listing the folder. Looking one up imports its file alone."""

    def __getitem__(self, name: str) -> DataSet:
        if (found := member(PACKAGE, DataSet, name)) is None:
            raise KeyError(name)
        return found()

    def __iter__(self) -> Iterator[str]:
        return iter(members(PACKAGE, DataSet))

    def __len__(self) -> int:
        return len(members(PACKAGE, DataSet))


SOURCES: Mapping[str, DataSet] = _DataSets()


def default_root() -> Path:
    """The folder of data sets: $PURIDIVER_DATA, or `puridiver` in the platform's cache folder."""
    if chosen := os.environ.get("PURIDIVER_DATA"):
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("puridiver", appauthor=False))


def cache_folder(root: Path | None = None) -> Path:
    """The folder of decoded images."""
    return _root(root) / "image-cache"


def _root(root: Path | None) -> Path:
    return default_root() if root is None else Path(root).expanduser()


def is_own(name: str) -> bool:
    """Whether this is the path of a folder or a table of image files."""
    return Path(name).suffix.lower() in TABLES or Path(name).is_dir()


def find(name: str) -> DataSet:
    """The data set of that name."""
    if name not in SOURCES:
        missing = "" if Path(name).exists() else ", and there is no such file or folder"
        raise ValueError(
            f"data should be one of {', '.join(SOURCES)}, a folder with a folder of images for each class, or a file "
            f"that ends in .npz, .csv, .jsonl or .parquet, but got {name!r}{missing}"
        )
    return SOURCES[name]


def load(
    name: str, root: Path | None = None, options: FileOptions | None = None, on_progress: OnProgress | None = None
) -> DataSource:
    """The data set called `name`, or your own if `name` is the path of a folder, a table or an .npz file.

    `root` is the folder of data sets and of the cache of decoded images; `default_root()` if left out.
    `on_progress` is called with (done, total) while image files are decoded.
    """
    options, cache = options or FileOptions(), cache_folder(root)
    if name not in SOURCES and is_own(name):
        from puridiver.data.files import list_own, load_listing

        found = load_listing(list_own(Path(name), options.test_share), cache, options, on_progress, {})
    elif name not in SOURCES and name.endswith(".npz"):
        from puridiver.data.arrays import load_npz

        found = load_npz(Path(name), options.test_share, options.trust_labels)
    else:
        data_set = find(name)
        if options.test_share is not None:
            raise ValueError(f"{name} has a test part of its own: leave the test share out")
        found = data_set.load(_root(root), cache, options, on_progress)
    if options.image_size is not None and found.train.names is None:
        raise ValueError(f"image_size is for data made of image files: leave it out with {name}")
    if options.trust_labels and found.train.true is not None:
        raise DataError(f"{name} tells the true labels of some images: leave --trust-labels out")
    return found


def verify(name: str, root: Path | None = None) -> list[str]:
    """What is wrong with a data set, one line each: missing or damaged files, unofficial content."""
    if name in SOURCES or not (is_own(name) or name.endswith(".npz")):
        return find(name).problems(_root(root))
    try:
        load(name, root)
    except DataError as error:
        return [str(error)]
    return []


def fetch_source(
    name: str,
    root: Path | None = None,
    url: str | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> Path:
    """Download and unpack a data set unless a good copy is here. Returns its folder.

    `url` is another place that serves the same archive; the checksum must match.
    """
    source, root = find(name), _root(root)
    if source.archive is None:
        raise ValueError(f"{name} is not fetched here: {source.title}; its home is {source.home_page}")
    folder = root / source.archive.folder
    if source.is_here(root) and not source.problems(root):
        return folder if folder.is_dir() else root  # `root` may be the folder itself
    from puridiver.data.download import fetch, unpack

    archive = fetch(url or source.archive.url, root / Path(source.archive.url).name, source.archive.md5, progress)
    return unpack(archive, root, source.archive.folder)

"""The registry of data sets by name: load, verify, fetch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from puridiver.data.archive import unpack
from puridiver.data.arrays import load_npz
from puridiver.data.base import DataSource
from puridiver.data.cifar import CIFAR10, CIFAR100, is_here, load_cifar10, load_cifar100
from puridiver.data.cifar_check import check_cifar10, check_cifar100
from puridiver.data.digits import check_digits, load_digits
from puridiver.data.download import Progress, fetch
from puridiver.errors import DataError

ROOT_VARIABLE = "PURIDIVER_DATA"


@dataclass(frozen=True)
class Archive:
    """A published .tar.gz and the folder it holds."""

    url: str
    md5: str
    size_bytes: int
    folder: str

    @property
    def file_name(self) -> str:
        return Path(urlsplit(self.url).path).name


@dataclass(frozen=True)
class Source:
    """One entry of the registry.

    `loader`, `checker` (problems found, one line each) and `is_here` (a quick look at names and sizes) all
    take the data root. `archive` is None where nothing needs to be fetched.
    """

    description: str
    home_page: str
    size: str
    loader: Callable[[Path], DataSource]
    checker: Callable[[Path], list[str]]
    is_here: Callable[[Path], bool]
    archive: Archive | None = None


def _always_here(root: Path) -> bool:
    return True


CIFAR_HOME_PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"

SOURCES: dict[str, Source] = {
    "digits": Source(
        description="handwritten digits that come with scikit-learn",
        home_page="https://archive.ics.uci.edu/dataset/80",
        size="1,397 + 400 images, 8x8 grey, 10 classes",
        loader=load_digits,
        checker=check_digits,
        is_here=_always_here,
    ),
    "cifar10": Source(
        description="CIFAR-10, small photographs",
        home_page=CIFAR_HOME_PAGE,
        size="50,000 + 10,000 images, 32x32 colour, 10 classes",
        loader=load_cifar10,
        checker=check_cifar10,
        is_here=lambda root: is_here(CIFAR10, root),
        archive=Archive(
            url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            md5="c32a1d4ab5d03f1284b67883e8d87530",
            size_bytes=170_052_171,
            folder=CIFAR10.folder,
        ),
    ),
    "cifar100": Source(
        description="CIFAR-100, small photographs, fine labels",
        home_page=CIFAR_HOME_PAGE,
        size="50,000 + 10,000 images, 32x32 colour, 100 classes",
        loader=load_cifar100,
        checker=check_cifar100,
        is_here=lambda root: is_here(CIFAR100, root),
        archive=Archive(
            url="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
            md5="03b5dce01913d631647c71ecec9e9cb8",
            size_bytes=168_513_733,
            folder=CIFAR100.folder,
        ),
    ),
}


def default_root() -> Path:
    """Where data sets lie: $PURIDIVER_DATA, or `puridiver` in the platform's cache folder."""
    chosen = os.environ.get(ROOT_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    return _cache_folder() / "puridiver"


def _cache_folder() -> Path:
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(xdg):  # the XDG rules say to ignore a relative one
        return Path(xdg)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path.home() / ".cache"


def find(name: str) -> Source:
    """The registry's entry of that name."""
    if name not in SOURCES:
        raise ValueError(f"data should be one of {', '.join(SOURCES)}, or end in .npz, but got {name!r}")
    return SOURCES[name]


def load(name: str, root: Path | None = None) -> DataSource:
    """The data set called `name`, or the one in an .npz file if `name` is the path of one.

    Parameters
    ----------
    root
        The folder in which data sets lie; `default_root()` if left out. An .npz path does not depend on it.
    """
    if name.endswith(".npz"):
        return load_npz(Path(name))
    return find(name).loader(_root(root))


def verify(name: str, root: Path | None = None) -> list[str]:
    """What is wrong with a data set, one line each: missing or damaged files, unofficial content."""
    if not name.endswith(".npz"):
        return find(name).checker(_root(root))
    try:
        load_npz(Path(name))
    except DataError as error:
        return [str(error)]
    return []


def fetch_source(
    name: str,
    root: Path | None = None,
    *,
    url: str | None = None,
    progress: Progress | None = None,
    timeout: float = 30.0,
    retries: int = 3,
) -> Path:
    """Download and unpack a data set unless a good copy is here; its folder.

    Parameters
    ----------
    url
        Another place that serves the same archive (the checksum must match).
    """
    source, root = find(name), _root(root)
    archive = source.archive
    if archive is None:
        raise ValueError(f"{name} needs no fetching: {source.description}")
    folder = root / archive.folder
    if source.is_here(root) and not source.checker(root):
        return folder if folder.is_dir() else root  # `root` may be the folder itself
    target = root / archive.file_name
    fetch(url or archive.url, target, md5=archive.md5, progress=progress, timeout=timeout, retries=retries)
    return unpack(target, root, archive.folder)


def _root(root: Path | None) -> Path:
    return default_root() if root is None else Path(root).expanduser()

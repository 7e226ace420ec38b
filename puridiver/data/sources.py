"""The registry of data sets by name: load, verify, fetch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from puridiver.data.archive import unpack
from puridiver.data.arrays import load_npz
from puridiver.data.base import DataSource
from puridiver.data.cache import OnProgress
from puridiver.data.cifar import CIFAR10, CIFAR100, is_here, load_cifar10, load_cifar100
from puridiver.data.cifar_check import check_cifar10, check_cifar100
from puridiver.data.digits import check_digits, load_digits
from puridiver.data.download import Progress, fetch
from puridiver.data.files import FileOptions, is_own, load_own, trust_message
from puridiver.data.web import FOOD101N, WEBVISION, check_web, find_folder, load_web
from puridiver.errors import DataError

ROOT_VARIABLE = "PURIDIVER_DATA"
CACHE = "image-cache"  # below the data root


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
    take the data root. `archive` is None where nothing is fetched. `from_files`, of data made of image files, stands
    for `loader` and takes the data root, the cache of decoded images, their options and what hears of progress.
    """

    description: str
    home_page: str
    size: str
    loader: Callable[[Path], DataSource]
    checker: Callable[[Path], list[str]]
    is_here: Callable[[Path], bool]
    archive: Archive | None = None
    from_files: Callable[[Path, Path, FileOptions, OnProgress | None], DataSource] | None = None


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
    "webvision": Source(
        description="WebVision's first 50 classes as Google found them (mini-WebVision)",
        home_page="https://data.vision.ee.ethz.ch/cvl/webvision/dataset2017.html",
        size="65,944 + 2,500 images, cut to 224x224 colour, 50 classes",
        loader=lambda root: load("webvision", root),
        checker=partial(check_web, WEBVISION),
        is_here=lambda root: find_folder(WEBVISION, root) is not None,
        from_files=partial(load_web, WEBVISION),
    ),
    "food101n": Source(
        description="Food-101N's verified lists, dishes as the web labels them",
        home_page="https://kuanghuei.github.io/Food-101N/",
        size="52,867 + 4,741 images, cut to 224x224 colour, 101 classes",
        loader=lambda root: load("food101n", root),
        checker=partial(check_web, FOOD101N),
        is_here=lambda root: find_folder(FOOD101N, root) is not None,
        from_files=partial(load_web, FOOD101N),
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
        missing = "" if Path(name).exists() else ", and there is no such file or folder"
        raise ValueError(
            f"data should be one of {', '.join(SOURCES)}, a folder with a folder of images for each class, or a file "
            f"that ends in .npz, .csv, .jsonl or .parquet, but got {name!r}{missing}"
        )
    return SOURCES[name]


def load(
    name: str,
    root: Path | None = None,
    options: FileOptions | None = None,
    on_progress: OnProgress | None = None,
) -> DataSource:
    """The data set called `name`, or your own if `name` is the path of a folder, a table or an .npz file.

    Parameters
    ----------
    root
        The folder in which data sets lie, and below it the cache of decoded images; `default_root()` if left out.
    options
        For your own data: test share, whether labels are trusted; of image files also their size and what happens
        with bad ones.
    on_progress
        Called with (done, total) while image files are decoded.
    """
    options = options or FileOptions()
    if name in SOURCES and (from_files := SOURCES[name].from_files) is not None:
        return from_files(_root(root), cache_folder(root), options, on_progress)
    if name not in SOURCES and is_own(name):
        return load_own(Path(name), cache_folder(root), options, on_progress)
    if name.endswith(".npz"):
        options.refuse_any(name, but="test_share")
        found = load_npz(Path(name), test_share=options.test_share, trust_labels=options.trust_labels)
        if options.trust_labels and found.train.true is not None:
            raise DataError(trust_message(name))
        return found
    source = find(name)
    options.refuse_any(name)
    return source.loader(_root(root))


def cache_folder(root: Path | None = None) -> Path:
    """Where decoded images are kept."""
    return _root(root) / CACHE


def verify(name: str, root: Path | None = None) -> list[str]:
    """What is wrong with a data set, one line each: missing or damaged files, unofficial content."""
    if name in SOURCES or not (name.endswith(".npz") or is_own(name)):
        return find(name).checker(_root(root))
    try:
        load(name, root, None if name.endswith(".npz") else FileOptions(test_share=None))
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
        raise ValueError(f"{name} is not fetched here: {source.description}; its home is {source.home_page}")
    folder = root / archive.folder
    if source.is_here(root) and not source.checker(root):
        return folder if folder.is_dir() else root  # `root` may be the folder itself
    target = root / archive.file_name
    fetch(url or archive.url, target, md5=archive.md5, progress=progress, timeout=timeout, retries=retries)
    return unpack(target, root, archive.folder)


def _root(root: Path | None) -> Path:
    return default_root() if root is None else Path(root).expanduser()

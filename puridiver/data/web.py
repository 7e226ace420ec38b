"""WebVision and Food-101N, whose labels come from the web, from the folders as their homes publish them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from puridiver.data.base import UNKNOWN, DataSource
from puridiver.data.cache import OnProgress
from puridiver.data.files import FileOptions, load_listing
from puridiver.data.listing import Listing
from puridiver.errors import DataError

SIDE = 224
WEBVISION_CLASSES = 50  # the paper's subset, known as mini-WebVision: the first 50 classes of the Google part

Rows = list[tuple[str, int, int]]  # path below the folder, class id, true class id or UNKNOWN


@dataclass(frozen=True)
class WebData:
    """Where one of the two lies, how its lists are read, and the paper's settings for it."""

    name: str
    folders: tuple[str, ...]  # that it may lie in, below the data root
    proof: str  # a file that shows that a folder is the right one
    counts: tuple[tuple[int, ...], tuple[int, ...]]  # how many train images there may be, and test images
    read: Callable[[Path], tuple[tuple[str, ...], Rows, Rows]]  # class names, train rows, test rows
    defaults: dict[str, Any]


def load_web(
    which: WebData, root: Path, cache: Path, options: FileOptions, on_progress: OnProgress | None
) -> DataSource:
    """One of the two as a data source; nobody knows the true labels of its train images."""
    if options.test_share is not None:
        raise ValueError(f"{which.name} has a test part of its own: leave the test share out")
    sized = replace(options, image_size=options.image_size or SIDE)
    return load_listing(list_web(which, root), cache, sized, on_progress, which.defaults)


def list_web(which: WebData, root: Path) -> Listing:
    folder = find_folder(which, root)
    if folder is None:
        raise DataError(
            f"{which.name} is not in {root}: {which.proof} should be there, or in one of {', '.join(which.folders)}; "
            "docs/DATA.md says what to fetch and where to put it"
        )
    class_names, train, test = which.read(folder)
    rows = [*train, *test]
    return Listing(
        which.name,
        str(folder),
        [path for path, *_ in rows],
        np.array([label for _, label, _ in rows], dtype=np.int64),
        np.arange(len(rows)) >= len(train),
        class_names,
        np.array([true for *_, true in rows], dtype=np.int64),
    )


def find_folder(which: WebData, root: Path) -> Path | None:
    places = [root / name for name in which.folders] + [root]
    return next((place for place in places if (place / which.proof).is_file()), None)


def check_web(which: WebData, root: Path) -> list[str]:
    """Whether the lists are there and as long as the paper says; the images are checked when they are decoded."""
    try:
        listing = list_web(which, root)
    except DataError as error:
        return [str(error)]
    found = (int((~listing.is_test).sum()), int(listing.is_test.sum()))
    return [
        f"{which.name} should list {' or '.join(f'{count:,}' for count in expected)} {part} images, but lists {there:,}"
        for part, expected, there in zip(("train", "test"), which.counts, found, strict=True)
        if there not in expected
    ]


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8", errors="surrogateescape") as lines:
            yield from ((number, line.strip()) for number, line in enumerate(lines, start=1) if line.strip())
    except FileNotFoundError:
        raise DataError(f"{path} is missing: docs/DATA.md tells the layout") from None


# WebVision ---------------------------------------------------------------------------------------------------------


def _read_webvision(folder: Path) -> tuple[tuple[str, ...], Rows, Rows]:
    synsets = [line for _, line in _lines(folder / "info" / "synsets.txt")][:WEBVISION_CLASSES]
    if len(synsets) < WEBVISION_CLASSES:
        raise DataError(
            f"{folder}/info/synsets.txt should name at least {WEBVISION_CLASSES} classes, not {len(synsets)}"
        )
    # "n01440764 tench, Tinca tinca": the number keeps names apart that are the same in words (two classes are "crane").
    names = [line.partition(" ") for line in synsets]
    class_names = tuple(f"{words.split(',')[0].strip()} ({number})" if words else number for number, _, words in names)
    test_folder = next((name for name in ("val_images_256", "val_images") if (folder / name).is_dir()), None)
    if test_folder is None:
        raise DataError(f"{folder} should hold the folder val_images_256 or val_images")
    train = _read_file_list(folder / "info" / "train_filelist_google.txt", "")
    return class_names, train, _read_file_list(folder / "info" / "val_filelist.txt", test_folder + "/")


def _read_file_list(path: Path, prefix: str) -> Rows:
    rows = []
    for number, line in _lines(path):
        name, _, label = line.rpartition(" ")
        if not name or not label.isdecimal():
            raise DataError(f"{path}, line {number}, should be a path and a class number, but is {line!r}")
        if int(label) < WEBVISION_CLASSES:
            rows.append((prefix + name, int(label), UNKNOWN))
    return rows


# Food-101N ---------------------------------------------------------------------------------------------------------


def _read_food101n(folder: Path) -> tuple[tuple[str, ...], Rows, Rows]:
    names = [line for _, line in _lines(folder / "meta" / "classes.txt") if line != "class_name"]  # the heading
    ids = {name: label for label, name in enumerate(names)}
    train, test = (_read_verified(folder / "meta" / f"verified_{part}.tsv", ids) for part in ("train", "val"))
    # Of the train images only right labels would be known: a purity by these alone would always be 100 %.
    return tuple(names), [(path, label, UNKNOWN) for path, label, _ in train], test


def _read_verified(path: Path, ids: dict[str, int]) -> Rows:
    """Every image of the list, whatever the verification says of its label: the paper's stream has them all.

    A label that was found right is the true one; of one that was found wrong nobody knows what would be right.
    """
    rows = []
    for number, line in _lines(path):
        key, _, verified = line.partition("\t")
        if key == "class_name/key":
            continue
        name, slash, _ = key.partition("/")
        if not slash or name not in ids:
            raise DataError(f"{path}, line {number}, should be CLASS/KEY with a class of classes.txt, but is {line!r}")
        image = f"images/{key}" if key.endswith(".jpg") else f"images/{key}.jpg"
        rows.append((image, ids[name], ids[name] if verified.strip() == "1" else UNKNOWN))
    return rows


WEBVISION = WebData(
    "webvision",
    ("webvision", "WebVision"),
    "info/train_filelist_google.txt",
    ((65_944,), (2_500,)),
    _read_webvision,
    {"network": "resnet34", "memory": 1_000, "tasks": 10, "halve_epochs": True},
)
FOOD101N = WebData(
    "food101n",
    ("Food-101N_release", "food101n", "Food-101N"),
    "meta/verified_train.tsv",
    ((52_867, 52_868), (4_741,)),  # the published streams have one image less than its home tells of
    _read_food101n,
    {"network": "resnet34", "memory": 2_000, "tasks": 5, "halve_epochs": True},
)

"""Which image files a data set has, with their labels; and how a folder per class becomes such a listing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from puridiver.data.base import check_class_names, check_test_share, choose_test_rows, natural, printable
from puridiver.data.images import ENDINGS
from puridiver.errors import DataError, few

TEST_FOLDERS = ("test", "val", "validation")  # the first that is there
COLUMNS = ("path", "label", "true_label", "is_test")


@dataclass(frozen=True)
class Listing:
    """Image files and what is said of them; train files come before test files."""

    name: str
    origin: Path  # the folder or table that the user named
    root: Path  # paths are relative to it
    files: pd.DataFrame  # path, label and true_label (class ids), is_test; perhaps time
    class_names: tuple[str, ...]


def make_listing(
    name: str, origin: Path, root: Path, table: pd.DataFrame, test_share: float | None, names: Sequence[str] = ()
) -> Listing:
    """Check a table of paths and class names, number the classes, and split off a test part where there is none."""
    names = tuple(names or natural({*table["label"], *table["true_label"]} - {""}))
    try:
        check_class_names(names)
    except ValueError as error:
        raise DataError(f"{origin}: {error}") from error
    index = pd.Index(names, dtype=object)  # a name that is no class, such as the empty one, becomes -1: UNKNOWN
    ids = {column: index.get_indexer(table[column]).astype(np.int64) for column in ("label", "true_label")}
    files = table.assign(**ids, is_test=table["is_test"].astype(bool))
    has_test = bool(files["is_test"].any())
    check_test_share(origin, has_test, test_share)
    if test_share and not has_test:
        files["is_test"] = choose_test_rows(ids["label"], test_share)
    return Listing(name, origin, root, files.sort_values("is_test", kind="stable", ignore_index=True), names)


def list_folder(folder: Path, test_share: float | None = None) -> Listing:
    """A folder per class: FOLDER/train/CLASS/* and FOLDER/test/CLASS/*, or FOLDER/CLASS/* with a share for testing.

    Images may lie deeper inside a class's folder. Hidden files, and files that are no images by their ending, are
    left out. `val` and `validation` mean `test`.
    """
    names = {name.lower(): name for name in sorted(_folders(folder))}
    tests = [names[name] for name in TEST_FOLDERS if name in names]
    has_parts = "train" in names and _folders(folder / names["train"])  # a class may be called train
    parts = [names["train"], *tests[:1]] if has_parts else [""]
    beside = set(names.values()) - {*parts, *tests} if has_parts else ()
    if others := [name for name in natural(beside) if images_in(folder, name)]:
        raise DataError(f"{folder} has images beside {parts[0]}, in {few(map(printable, others), 3)}: put all below it")
    classes = natural({name for part in parts for name in _folders(folder / part)})
    rows = [
        (path, printable(name), "", part != parts[0])
        for part in parts
        for name in classes
        for path in images_in(folder, os.path.join(part, name))
    ]
    endings = ", ".join(sorted(ENDINGS))
    if not rows:
        raise DataError(f"{folder} should hold a folder for each class, with images that end in {endings}")
    if empty := sorted(set(map(printable, classes)) - {row[1] for row in rows}):
        raise DataError(f"{folder}: class {few(empty)} has no images that end in {endings}: remove its folder")
    table = pd.DataFrame(rows, columns=COLUMNS, dtype=object)
    return make_listing(folder.resolve().name, folder, folder, table, test_share)


def _folders(folder: Path) -> list[str]:
    return [entry.name for entry in os.scandir(folder) if entry.is_dir() and _is_visible(entry.name)]


def _is_visible(name: str) -> bool:
    return not name.startswith(".") and name != "__MACOSX"  # which archivers leave


def images_in(root: Path, folder: str = "") -> list[str]:
    """Paths of the images below a folder of `root`, sorted. Links end the descent."""
    found = []
    for where, folders, files in os.walk(os.path.join(root, folder)):
        folders[:] = filter(_is_visible, folders)
        images = [name for name in files if _is_visible(name) and os.path.splitext(name)[1].lower() in ENDINGS]
        found += [os.path.relpath(os.path.join(where, name), root) for name in images]
    return sorted(found, key=os.fsencode)

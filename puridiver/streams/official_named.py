"""Reads the published split files of data whose images have names: WebVision, Food-101N.

A row is {"klass": 41, "file_name": "google/q0084/abc.jpg", "label": 0}. `label` is a number in the split's own class
order, which the rows reveal: the class of an image is that of the data's own lists. A file is found by its name below
the data, else by its folder and name, else by its name alone, if that is only one file's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from puridiver.data.base import DataSource
from puridiver.errors import ManifestError
from puridiver.streams.checks import IntArray
from puridiver.streams.official_json import Split, check_once, read_rows, row_error

FILE_NAME = re.compile(
    r"(?P<source>.+)_train_blurry(?P<minor>\d+)(_[^_]+)?_rand(?P<seed>\d+)_cls\d+_task(?P<task>\d+)\.json"
)
FILE_NAME_EXAMPLE = "WebVision-V1-2_train_blurry10_rand1_cls5_task0.json"
AMBIGUOUS = -1


def read_named_tasks(folder: Path, source: DataSource, seed: int) -> Split:
    """All tasks of the published stream of this seed."""
    files, minor = _find_files(folder, source, seed)
    tasks = [read_rows(path) for path in files]
    finder = NamedImages(source)
    found = [finder.rows(path, rows) for path, rows in zip(files, tasks, strict=True)]
    indices = [np.array([index for index, _ in part], dtype=np.int64) for part in found]
    check_once(files, indices)
    labels = source.train.labels.numpy()
    class_of_id = _class_of_id(files, found, labels)
    given = [np.array([class_of_id[number] for _, number in part], dtype=np.int64) for part in found]
    order = [class_of_id[number] for number in sorted(class_of_id)]
    return Split(str(folder), "none", 0.0, seed, minor, order, indices, given)


def _find_files(folder: Path, source: DataSource, seed: int) -> tuple[list[Path], float]:
    found: dict[int, tuple[Path, int]] = {}
    for path in sorted(folder.rglob(f"*_train_blurry*_rand{seed}_cls*_task*.json")):
        match = FILE_NAME.fullmatch(path.name)
        if match is None or not re.sub(r"[^a-z0-9]", "", match["source"].lower()).startswith(source.name):
            continue
        task = int(match["task"])
        if task in found:
            raise ManifestError(f"{folder}: two files for task {task}: {found[task][0].name}, {path.name}")
        found[task] = path, int(match["minor"])
    if not found or sorted(found) != list(range(len(found))):
        raise ManifestError(
            f"{folder}: should hold files such as {FILE_NAME_EXAMPLE} for all tasks from 0, "
            f"but has tasks {sorted(found) or 'none'} of {source.name}, seed {seed}"
        )
    return [found[task][0] for task in sorted(found)], found[0][1] / 100


class NamedImages:
    """Finds train images by what the split files call them."""

    def __init__(self, source: DataSource) -> None:
        self._by_end: dict[str, int] = {}
        self._left_out = {PurePosixPath(name).name for name in source.left_out}
        for index, name in enumerate(source.train.names or ()):
            for end in _ends(name):
                self._by_end[end] = AMBIGUOUS if end in self._by_end else index

    def rows(self, path: Path, rows: Sequence[dict[str, Any]]) -> list[tuple[int, int]]:
        """(train index, split's class number) of each row; files that were left out as unreadable are passed over."""
        found = []
        for number, row in enumerate(rows, start=1):
            name, label = row.get("file_name"), row.get("label")
            if not isinstance(name, str) or type(label) is not int:
                raise row_error(path, number, f"file_name and label should be text and a number, but got {row!r}")
            index = next((self._by_end[end] for end in _ends(name) if end in self._by_end), None)
            if index is None and PurePosixPath(name).name in self._left_out:
                continue
            if index is None or index == AMBIGUOUS:
                fault = "is not among the train images" if index is None else "may be one of several images"
                raise row_error(path, number, f"{name!r} {fault}")
            found.append((index, label))
        return found


def _ends(name: str) -> list[str]:
    """The whole name, its last two parts and its last one, without repeats."""
    parts = PurePosixPath(name).parts
    return list(dict.fromkeys("/".join(parts[-n:]) for n in (len(parts), 2, 1)))


def _class_of_id(files: Sequence[Path], found: Sequence[list[tuple[int, int]]], labels: IntArray) -> dict[int, int]:
    """From the split's class numbers to the data's class ids, one to one."""
    class_of_id: dict[int, int] = {}
    id_of_class: dict[int, int] = {}
    for path, rows in zip(files, found, strict=True):
        for number, (index, split_id) in enumerate(rows, start=1):
            label = int(labels[index])
            if class_of_id.setdefault(split_id, label) != label or id_of_class.setdefault(label, split_id) != split_id:
                raise row_error(path, number, f"label {split_id} goes with class {label} here, elsewhere not")
    return class_of_id

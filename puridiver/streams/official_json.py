"""Reads the published split files, one JSON list of rows a task.

A row is {"klass": "ship", "file_name": "train/ship/4443.png", "label": 0, "true_label": 9}. `klass` and the
folder both name the image's TRUE class; 4443 counts the images of that class in train order from 1. `label`
(given) and `true_label` are numbers in the split's own class order, which the rows reveal: the images whose
true_label is 9 are ships. Test rows have no true_label; their label is the true one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from puridiver.data.base import DataSource, ImageSet
from puridiver.errors import ManifestError
from puridiver.streams.checks import IntArray
from puridiver.streams.noise import parse_noise

FILE_NAME = re.compile(
    r"(?P<source>.+)_train_blurry(?P<minor>\d+)_(?P<kind>[a-z]+)N(?P<rate>\d+)"
    r"_rand(?P<seed>\d+)_cls(?P<classes>\d+)_task(?P<task>\d+)\.json"
)
FILE_NAME_EXAMPLE = "cifar10_train_blurry10_symN40_rand1_cls2_task0.json"
IMAGE_NAME = re.compile(r"(?P<part>train|test)/(?P<klass>[^/]+)/(?P<number>\d+)\.png")


@dataclass(frozen=True)
class Split:
    """A published stream as its files give it, with class ids and train indices of the source."""

    where: str
    noise: str
    noise_rate: float
    seed: int
    minor_share: float
    class_order: list[int]
    indices: list[IntArray]
    labels: list[IntArray]


def read_tasks(
    paths: Path | str | Sequence[Path | str],
    source: DataSource,
    noise: str | None = None,
    seed: int | None = None,
) -> Split:
    """Read all tasks of one stream: its files in order, or a folder, where noise and seed say which."""
    if isinstance(paths, str | Path):
        files, where = _find_files(Path(paths), source, noise, seed), str(paths)
    else:
        files, where = [Path(path) for path in paths], ", ".join(Path(path).name for path in paths)
    name = _check_names(files, len(source.class_names))
    tasks = [read_rows(path) for path in files]
    class_of_id = _class_order(files, tasks, source, "true_label")
    images = ImageNumbers(source.train, source.class_names, "train")
    indices = [images.indices(path, rows) for path, rows in zip(files, tasks, strict=True)]
    check_once(files, indices)
    labels = [_given_labels(path, rows, class_of_id) for path, rows in zip(files, tasks, strict=True)]
    kind, rate = parse_noise(name["kind"] + name["rate"])
    class_order = [class_of_id[number] for number in sorted(class_of_id)]
    return Split(where, kind, rate, int(name["seed"]), int(name["minor"]) / 100, class_order, indices, labels)


def read_task(path: Path | str, source: DataSource) -> tuple[IntArray, IntArray]:
    """(train indices, given class ids) of one task's file."""
    path = Path(path)
    rows = read_rows(path)
    class_of_id = _class_order([path], [rows], source, "true_label")
    indices = ImageNumbers(source.train, source.class_names, "train").indices(path, rows)
    check_once([path], [indices])
    return indices, _given_labels(path, rows, class_of_id)


def test_order_from_json(path: Path | str, source: DataSource) -> IntArray:
    """The test indices that a published test file names, in its order."""
    path = Path(path)
    rows = read_rows(path)
    _class_order([path], [rows], source, "label")
    indices = ImageNumbers(source.test, source.class_names, "test").indices(path, rows)
    check_once([path], [indices])
    return indices


def _find_files(folder: Path, source: DataSource, noise: str | None, seed: int | None) -> list[Path]:
    if noise is None or seed is None:
        raise ValueError(f"a folder holds many streams: noise and seed should be given, but got {noise} and {seed}")
    kind, rate = parse_noise(noise)
    found: dict[int, Path] = {}
    names = f"{source.name}_train_blurry*_{kind}N{round(rate * 100)}_rand{seed}_*.json"
    for path in sorted(folder.glob(names)) or sorted(folder.rglob(names)):  # there, else below, as they are published
        match = FILE_NAME.fullmatch(path.name)
        if match and found.setdefault(int(match["task"]), path) is not path:
            raise ManifestError(
                f"{folder}: two files for task {match['task']}: "
                f"{found[int(match['task'])].relative_to(folder)}, {path.relative_to(folder)}"
            )
    if not found:
        raise ManifestError(
            f"{folder}: should hold {source.name}.npz or files such as {_example(source)}, "
            f"but has none for {source.name}, {noise}, seed {seed}"
        )
    return [found[task] for task in sorted(found)]


def _example(source: DataSource) -> str:
    return FILE_NAME_EXAMPLE.replace("cifar10", source.name).replace("cls2", f"cls{len(source.class_names) // 5}")


def _check_names(files: Sequence[Path], n_classes: int) -> dict[str, str]:
    """What the file names say of the stream; they should name all its tasks, in order, and nothing else."""
    matches = [FILE_NAME.fullmatch(path.name) for path in files]
    for path, match in zip(files, matches, strict=True):
        if match is None:
            raise ManifestError(f"{path}: should be named like {FILE_NAME_EXAMPLE}")
    names = [match.groupdict() for match in matches if match]
    tasks = [int(name.pop("task")) for name in names]
    if any(name != names[0] for name in names):
        raise ManifestError(f"the files should belong to one stream, but got {', '.join(p.name for p in files)}")
    n_tasks = n_classes // max(int(names[0]["classes"]), 1) if names else 0
    if not names or tasks != list(range(n_tasks)):
        raise ManifestError(f"the files should be those of tasks 0 to {n_tasks - 1} in order, but got tasks {tasks}")
    return names[0]


def read_rows(path: Path) -> list[dict[str, Any]]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{path}: not a JSON file, or a damaged one: {error}") from error
    if not isinstance(rows, list) or not rows:
        raise ManifestError(f"{path}: should hold a list of rows")
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise ManifestError(f"{path}: row {number} should be an object, but got {row!r}")
    return rows


def row_error(path: Path, number: int, message: str) -> ManifestError:
    return ManifestError(f"{path}: row {number} (counted from 1): {message}")


def _read_id(path: Path, number: int, row: dict[str, Any], key: str, n_classes: int) -> int:
    value = row.get(key)
    if type(value) is not int or not 0 <= value < n_classes:
        raise row_error(path, number, f"{key} should be an integer from 0 to {n_classes - 1}, but got {value!r}")
    return value


def _class_order(
    files: Sequence[Path], tasks: Sequence[list[dict[str, Any]]], source: DataSource, id_key: str
) -> dict[int, int]:
    """From the split's class numbers to the source's class ids, one to one, as the rows reveal it."""
    class_of_name = {name: label for label, name in enumerate(source.class_names)}
    class_of_id: dict[int, int] = {}
    id_of_class: dict[int, int] = {}
    for path, rows in zip(files, tasks, strict=True):
        for number, row in enumerate(rows, start=1):
            if row.get("klass") not in class_of_name:
                raise row_error(path, number, f"klass should be a class of the data, but got {row.get('klass')!r}")
            label, split_id = (
                class_of_name[row["klass"]],
                _read_id(path, number, row, id_key, len(class_of_name)),
            )
            if class_of_id.setdefault(split_id, label) != label or id_of_class.setdefault(label, split_id) != split_id:
                raise row_error(path, number, f"{id_key} {split_id} goes with {row['klass']!r} here, elsewhere not")
    return class_of_id


def _given_labels(path: Path, rows: list[dict[str, Any]], class_of_id: dict[int, int]) -> IntArray:
    labels = []
    for number, row in enumerate(rows, start=1):
        split_id = row.get("label")
        if type(split_id) is not int or split_id not in class_of_id:
            raise row_error(path, number, f"label should be a number that occurs as true_label, but got {split_id!r}")
        labels.append(class_of_id[split_id])
    return np.array(labels, dtype=np.int64)


def check_once(files: Sequence[Path], indices: Sequence[IntArray]) -> None:
    seen: set[int] = set()
    for path, part in zip(files, indices, strict=True):
        for number, index in enumerate(part.tolist(), start=1):
            if index in seen:
                raise row_error(path, number, "the image has already come")
            seen.add(index)


class ImageNumbers:
    """Finds images by the names of the split files: class, and number within the class from 1."""

    def __init__(self, images: ImageSet, class_names: Sequence[str], part: str) -> None:
        labels = images.labels.numpy()
        self._of_class = {name: np.flatnonzero(labels == label) for label, name in enumerate(class_names)}
        self._part = part

    def indices(self, path: Path, rows: list[dict[str, Any]]) -> IntArray:
        found = [self._index(path, number, row) for number, row in enumerate(rows, start=1)]
        return np.array(found, dtype=np.int64)

    def _index(self, path: Path, number: int, row: dict[str, Any]) -> int:
        match = IMAGE_NAME.fullmatch(str(row.get("file_name")))
        if match is None or match["part"] != self._part or match["klass"] != row["klass"]:
            raise row_error(
                path,
                number,
                f"file_name should be {self._part}/{row['klass']}/NUMBER.png, but got {row.get('file_name')!r}",
            )
        members = self._of_class[match["klass"]]
        if not 1 <= int(match["number"]) <= len(members):
            raise row_error(
                path, number, f"{match['klass']!r} has images 1 to {len(members)}, but got {match['number']}"
            )
        return int(members[int(match["number"]) - 1])

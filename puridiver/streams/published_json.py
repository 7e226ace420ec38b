"""Reads the published split files: one JSON list of rows a task, in two kinds.

CIFAR: {"klass": "ship", "file_name": "train/ship/4443.png", "label": 0, "true_label": 9}. `klass` and the folder both
name the image's TRUE class; 4443 counts the images of that class in train order from 1.

WebVision and Food-101N, whose images have names: {"klass": 41, "file_name": "google/q0084/abc.jpg", "label": 0}. A file
is found by its name below the data, else by its folder and name, else by its name alone, if that is only one file's.

`label` (given) and `true_label` are numbers in the split's own class order, which the rows reveal: the images whose
true_label is 9 are ships. Without a true_label the class of an image is that of the data's own lists.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from puridiver.data.base import DataSource
from puridiver.errors import DataError, ManifestError
from puridiver.files import read_json
from puridiver.streams.noise import parse_noise
from puridiver.streams.published import Split

FILE_NAME = re.compile(
    r"(?P<source>.+)_train_blurry(?P<minor>\d+)(_(?P<kind>[a-z]+)N(?P<rate>\d+)|_[^_]+)?"
    r"_rand(?P<seed>\d+)_cls(?P<classes>\d+)_task(?P<task>\d+)\.json"
)
NUMBERED_EXAMPLE = "cifar10_train_blurry10_symN40_rand1_cls2_task0.json"
NAMED_EXAMPLE = "WebVision-V1-2_train_blurry10_rand1_cls5_task0.json"
IMAGE_NAME = re.compile(r"train/(?P<klass>[^/]+)/(?P<number>\d{1,9})\.png")
AMBIGUOUS = -1

Row = dict[str, Any]
Seen = tuple[int, int, int, int]  # train index, class id, split's number of that class, split's number of the given one


def read_split(folder: Path, source: DataSource, noise: str, seed: int) -> Split:
    """All tasks of the published stream of this noise and seed. Where images have names no noise was added."""
    named = source.train.names is not None
    kind, rate = ("none", 0.0) if named else parse_noise(noise)
    files, minor = _find_files(folder, source, None if named else f"{kind}N{round(rate * 100)}", seed)
    read_row = _named_reader(source) if named else _numbered_reader(source)
    class_of_number: dict[int, int] = {}
    number_of_class: dict[int, int] = {}
    arrived: set[int] = set()
    tasks: list[list[Seen]] = []
    for path in files:
        tasks.append([])
        for number, row in enumerate(_read_rows(path), start=1):
            try:
                if (seen := read_row(row)) is None:
                    continue
                index, label, split_number, _ = seen
                if index in arrived:
                    raise ValueError("the image has already come")
                arrived.add(index)
                if (
                    class_of_number.setdefault(split_number, label) != label
                    or number_of_class.setdefault(label, split_number) != split_number
                ):
                    raise ValueError(f"{split_number} goes with class {label} here, elsewhere not")
                tasks[-1].append(seen)
            except ValueError as error:
                raise ManifestError(f"{path}: row {number} (counted from 1): {error}") from error
    given = [number for task in tasks for *_, number in task]
    if unknown := set(given) - class_of_number.keys():
        raise ManifestError(f"{folder}: label {min(unknown)} should be a number that occurs as true_label")
    return Split(
        str(folder), (kind, rate), seed, minor, [class_of_number[number] for number in sorted(class_of_number)],
        np.cumsum([len(task) for task in tasks]).tolist(),
        np.array([index for task in tasks for index, *_ in task], dtype=np.int64),
        np.array([class_of_number[number] for number in given], dtype=np.int64),
    )  # fmt: skip


def _find_files(folder: Path, source: DataSource, noise: str | None, seed: int) -> tuple[list[Path], float]:
    """The files of tasks 0, 1, ... and the minor share in their names; there, else below, as they are published."""
    pattern = f"*_train_blurry*_rand{seed}_cls*_task*.json"
    found: dict[int, tuple[Path, re.Match[str]]] = {}
    for path in sorted(folder.glob(pattern)) or sorted(folder.rglob(pattern)):
        match = FILE_NAME.fullmatch(path.name)
        if match is None or not _belongs(match, source.name, noise):
            continue
        task = int(match["task"])
        if task in found:
            raise ManifestError(f"{folder}: two files for task {task}: {found[task][0].name}, {path.name}")
        found[task] = path, match
    example = NUMBERED_EXAMPLE.replace("cifar10", source.name) if noise else NAMED_EXAMPLE
    n_tasks = len(source.class_names) // max(int(found[min(found)][1]["classes"]), 1) if found else 0
    if not found or sorted(found) != list(range(n_tasks)):
        raise ManifestError(
            f"{folder}: should hold {source.name}.npz, or files such as {example} for all tasks from 0, but has tasks "
            f"{sorted(found) or 'none'} for {source.name}, {noise or 'any noise'}, seed {seed}"
        )
    return [found[task][0] for task in range(n_tasks)], int(found[0][1]["minor"]) / 100


def _belongs(match: re.Match[str], name: str, noise: str | None) -> bool:
    if noise is None:
        return re.sub(r"[^a-z0-9]", "", match["source"].lower()).startswith(name)
    return match["source"] == name and f"{match['kind']}N{match['rate']}" == noise


def _read_rows(path: Path) -> list[Row]:
    try:
        rows = read_json(path)
    except DataError as error:
        raise ManifestError(str(error)) from error
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise ManifestError(f"{path}: should hold a list of rows, each an object")
    return rows


def _numbered_reader(source: DataSource) -> Callable[[Row], Seen | None]:
    """Reads rows that name an image by its class and its number within the class from 1."""
    labels, n_classes = source.train.labels.numpy(), len(source.class_names)
    members = {name: np.flatnonzero(labels == label) for label, name in enumerate(source.class_names)}
    ids = {name: label for label, name in enumerate(source.class_names)}

    def read(row: Row) -> Seen:
        klass = row.get("klass")
        if not isinstance(klass, str) or klass not in ids:
            raise ValueError(f"klass should be a class of the data, but got {klass!r}")
        for key in ("true_label", "label"):
            if type(row.get(key)) is not int or not 0 <= row[key] < n_classes:
                raise ValueError(f"{key} should be an integer from 0 to {n_classes - 1}, but got {row.get(key)!r}")
        match = IMAGE_NAME.fullmatch(str(row.get("file_name")))
        if match is None or match["klass"] != klass:
            raise ValueError(f"file_name should be train/{klass}/NUMBER.png, but got {row.get('file_name')!r}")
        if not 1 <= int(match["number"]) <= len(members[klass]):
            raise ValueError(f"{klass!r} has images 1 to {len(members[klass])}, but got {match['number']}")
        return int(members[klass][int(match["number"]) - 1]), ids[klass], row["true_label"], row["label"]

    return read


def _named_reader(source: DataSource) -> Callable[[Row], Seen | None]:
    """Reads rows that name an image by its file; those of files left out as unreadable give None."""
    labels = source.train.labels.tolist()
    left_out = {PurePosixPath(name).name for name in source.left_out}
    by_end: dict[str, int] = {}
    for index, name in enumerate(source.train.names or ()):
        for end in _ends(name):
            by_end[end] = AMBIGUOUS if end in by_end else index

    def read(row: Row) -> Seen | None:
        name, number = row.get("file_name"), row.get("label")
        if not isinstance(name, str) or type(number) is not int:
            raise ValueError(f"file_name and label should be text and a number, but got {name!r} and {number!r}")
        found = next((by_end[end] for end in _ends(name) if end in by_end), None)
        if found is None and PurePosixPath(name).name in left_out:
            return None
        if found is None or found == AMBIGUOUS:
            raise ValueError(f"{name!r} {'is not' if found is None else 'may be several'} among the train images")
        return found, labels[found], number, number

    return read


def _ends(name: str) -> list[str]:
    """The whole name, its last two parts and its last one, without repeats."""
    parts = PurePosixPath(name).parts
    return list(dict.fromkeys("/".join(parts[-n:]) for n in (len(parts), 2, 1)))

"""Imports the streams that the paper's authors published, as one .npz file or as JSON files.

Tasks are equal parts, cut by the given label; asymmetric noise swaps pairs of classes, other pairs for each seed. The
last task has more minor samples, being what is left over. `puridiver.streams.names` tells of the order within tasks.

An .npz file has keys <noise>_seed<k>_index (train indices task by task), _label (given class ids) and _order (class ids
as the split numbers them). A JSON file is a task, a list of rows:

- CIFAR: {"file_name": "train/ship/4443.png", "label": 0, "true_label": 9}: the 4443rd ship in train order.
- WebVision and Food-101N: {"file_name": "google/q0084/abc.jpg", "label": 0}; the folder and the name find the file.

`label` (given) and `true_label` are numbers in the split's own class order, which the rows reveal: the images whose
true_label is 9 are ships. Without a true_label the class of an image is that of the data's own lists.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from puridiver.data.base import DataSource
from puridiver.data.numpy_files import read_arrays
from puridiver.errors import DataError, ManifestError
from puridiver.files import read_json
from puridiver.streams.checks import IntArray
from puridiver.streams.manifest import StreamManifest, realised_noise
from puridiver.streams.names import LISTED, parse_published
from puridiver.streams.noise import noise_kind, parse_noise
from puridiver.streams.tasks import group_classes

NOISE_TOLERANCE = 0.01  # how far the measured noise may be from the rate in a stream's name
NPZ_TASKS, NPZ_MINOR_SHARE = 5, 0.1  # .npz files do not name these
FILE_NAME = re.compile(
    r"(?P<source>.+)_train_blurry(?P<minor>\d+)(_(?P<noise>[^_]+))?_rand\d+_cls(?P<classes>\d+)_task(?P<task>\d+)\.json"
)


class Split(NamedTuple):
    """A published stream as its files give it, with class ids and train indices of the source."""

    minor_share: float
    class_order: list[int]
    ends: list[int]  # of tasks
    rows: IntArray  # of train images
    labels: IntArray


def find_official(spec: str, source: DataSource, splits: Path | str) -> StreamManifest:
    """The published stream "official:sym40:1" (noise and seed; the first word may be left out).

    `splits` is an .npz file, a folder that holds one named after the source, or a folder of JSON files. With
    ":listed" at the end the stream comes in the order of the files, otherwise each task is shuffled.
    """
    noise, seed, order = parse_published(spec)
    kind, rate = parse_noise(noise)
    splits = Path(splits)
    npz = splits / f"{source.name}.npz" if splits.is_dir() else splits
    if source.train.names is not None:  # no noise was added where images have names
        kind, rate = "none", 0.0
    if not npz.is_file() and not splits.is_dir():
        raise ManifestError(f"{splits}: should be an .npz file or a folder of split files, but is not there")
    try:
        split = _read_npz(npz, kind, rate, seed) if npz.is_file() else _read_json(splits, source, kind, rate, seed)
        return _to_manifest(split, source, kind, rate, seed, order == LISTED)
    except DataError as error:
        raise ManifestError(str(error)) from error
    except ValueError as error:
        raise ManifestError(f"{splits}: {error}") from error


def _to_manifest(split: Split, source: DataSource, kind: str, rate: float, seed: int, listed: bool) -> StreamManifest:
    """The manifest of a published stream; its labels and noise are checked against the data."""
    minor_share, class_order, ends, rows, labels = split
    if len(rows) != len(labels) or not 0 <= rows.min(initial=0) <= rows.max(initial=-1) < len(source.train):
        raise ValueError(f"there should be a label for each index, all from 0 to {len(source.train) - 1}")
    true = source.train.true_labels.numpy()[rows]
    realised = realised_noise(labels, true)
    if realised is not None and abs(realised - rate) > NOISE_TOLERANCE:
        raise ValueError(
            f"{rate:.1%} of the labels should be wrong, but {realised:.1%} are: it is damaged or of other data"
        )
    flips = sorted(set(zip(true[labels != true].tolist(), labels[labels != true].tolist(), strict=True)))
    one_to_one = noise_kind(kind).uses_map and len(dict(flips)) == len(flips)
    if not listed:
        # As the released program does, whose generator everything else draws from: its very order cannot be had.
        rng = np.random.default_rng(seed)
        order = np.concatenate([rng.permutation(part) for part in np.split(np.arange(len(rows)), ends[:-1])])
        rows, labels = rows[order], labels[order]
    return StreamManifest.of(
        source, rows, labels, kind="official", seed=seed, n_tasks=len(ends), minor_share=minor_share, noise=kind,
        noise_rate=rate, noise_map=dict(flips) if one_to_one else None, task_ends=tuple(ends),
        major_classes=tuple(group_classes(class_order, len(ends), rest_to_last=True)), holdout=np.arange(0),
    )  # fmt: skip


def _read_npz(path: Path, kind: str, rate: float, seed: int) -> Split:
    keys = [f"{kind}{round(rate * 100)}_seed{seed}_{key}" for key in ("index", "label", "order")]
    arrays = read_arrays(path, keys)
    for key in keys:
        array = arrays[key]
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ValueError(f"{key} should be integers of shape (N,), but is {array.dtype} of shape {array.shape}")
    index, labels, class_order = (arrays[key].astype(np.int64) for key in keys)
    ends = [len(index) * (task + 1) // NPZ_TASKS for task in range(NPZ_TASKS)]
    return Split(NPZ_MINOR_SHARE, class_order.tolist(), ends, index, labels)


def _read_json(folder: Path, source: DataSource, kind: str, rate: float, seed: int) -> Split:
    """All tasks of the published stream of this noise and seed."""
    named = source.train.names is not None
    files, minor_share = _find_files(folder, source, None if named else f"{kind}N{round(rate * 100)}", seed)
    own, left_out = source.train.labels.tolist(), {_short(name) for name in source.left_out}
    row_of = {_short(name): row for row, name in enumerate(source.train.names or _numbered_names(source))}
    number_of: dict[int, int] = {}  # class id -> number of the class in the split
    arrived: dict[int, int] = {}  # row -> number of the given label in the split
    ends = []
    for path in files:
        lines = read_json(path)
        if not isinstance(lines, list) or not lines or not all(isinstance(line, dict) for line in lines):
            raise DataError(f"{path}: should hold a list of rows, each an object")
        for place, line in enumerate(lines, start=1):
            name, number, row, problem = line.get("file_name"), line.get("label"), -1, ""
            true = number if named else line.get("true_label")
            if not isinstance(name, str) or type(number) is not int or type(true) is not int:
                problem = f"file_name and labels should be text and numbers, but got {name!r}, {number!r}, {true!r}"
            elif (row := row_of.get(_short(name), -1)) < 0:
                if _short(name) in left_out:
                    continue
                problem = f"{name!r} is not among the train images"
            elif row in arrived:
                problem = "the image has already come"
            elif number_of.setdefault(own[row], true) != true:
                problem = f"class {own[row]} has the number {true} here, elsewhere not"
            if problem:
                raise DataError(f"{path}: row {place} (counted from 1): {problem}")
            arrived[row] = number
        ends.append(len(arrived))
    class_of = {number: label for label, number in number_of.items()}
    if unknown := set(arrived.values()) - class_of.keys():
        raise ValueError(f"label {min(unknown)} should be a number that occurs as true_label")
    labels = np.array([class_of[number] for number in arrived.values()], dtype=np.int64)
    return Split(minor_share, [class_of[number] for number in sorted(class_of)], ends, np.array([*arrived]), labels)


def _find_files(folder: Path, source: DataSource, noise: str | None, seed: int) -> tuple[list[Path], float]:
    """The files of tasks 0, 1, ... and the minor share in their names; there, else below, as they are published."""
    pattern = f"*_train_blurry*_rand{seed}_cls*_task*.json"
    found: dict[int, Path] = {}
    n_tasks, minor_share = 1, 0.0
    for path in sorted(folder.glob(pattern)) or sorted(folder.rglob(pattern)):
        match = FILE_NAME.fullmatch(path.name)
        # "WebVision-V1-2" is webvision; where no noise was added, any note in the name will do.
        plain = re.sub(r"[^a-z0-9]", "", match["source"].lower()) if match and noise is None else ""
        if match is None or not (
            plain.startswith(source.name) or (match["source"], match["noise"]) == (source.name, noise)
        ):
            continue
        if (task := int(match["task"])) in found:
            raise ValueError(f"two files for task {task}: {found[task].name}, {path.name}")
        found[task] = path
        n_tasks, minor_share = len(source.class_names) // max(int(match["classes"]), 1), int(match["minor"]) / 100
    if sorted(found) != list(range(n_tasks)):
        raise ValueError(
            f"should hold {source.name}.npz, or *_train_blurry10_{noise or 'NOISE'}_rand{seed}_cls2_task0.json, "
            f"... for all tasks, but has tasks {sorted(found) or 'none'} for {source.name}"
        )
    return [found[task] for task in range(n_tasks)], minor_share


def _numbered_names(source: DataSource) -> list[str]:
    """Names of images by their class and their number within it, from 1."""
    labels = pd.Series(source.train.labels.numpy())
    numbers = labels.groupby(labels).cumcount() + 1
    return [f"{source.class_names[label]}/{number}.png" for label, number in zip(labels, numbers, strict=True)]


def _short(name: str) -> str:
    """The folder and the name of a file; a number without zeros before it."""
    return re.sub(r"/0+(?=\d+\.png$)", "/", "/".join(name.split("/")[-2:]))

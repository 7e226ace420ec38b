"""Imports the streams that the paper's authors published, as one .npz file or as JSON files.

An .npz file has keys <noise>_seed<k>_index (train indices task by task), _label (given class ids) and _order (class ids
as the split numbers them). A JSON file is a task, a list of rows:

- CIFAR: {"file_name": "train/ship/4443.png", "label": 0, "true_label": 9}: the 4443rd ship in train order.
- WebVision and Food-101N: {"file_name": "google/q0084/abc.jpg", "label": 0}; the folder and the name find the file.

`label` (given) and `true_label` are numbers in the split's own class order, which the rows reveal: the images whose
true_label is 9 are ships. Without a true_label the class of an image is that of the data's own lists.

"official:sym40:1:shuffled", or without the last word, is a published stream, each task shuffled as the released program
does (row 23 of docs/fidelity.md). "official:sym40:1:listed" has the order of the files, of which most list the samples
of a task's major classes first.
"""

import re
from pathlib import Path

import numpy as np

from puridiver.data.arrays import read_arrays
from puridiver.data.base import DataSource
from puridiver.errors import DataError, ManifestError
from puridiver.files import read_json
from puridiver.streams.checks import IntArray, as_ids, require
from puridiver.streams.manifest import StreamManifest, realised_noise
from puridiver.streams.noise import noise_kind, parse_noise
from puridiver.streams.tasks import group_classes

WORD, SHUFFLED, LISTED = "official", "shuffled", "listed"
PUBLISHED_KINDS = (WORD, f"{WORD}:{LISTED}")  # as columns of grids name them
NOISE_TOLERANCE = 0.01  # how far the measured noise may be from the rate in a stream's name
NPZ_TASKS, NPZ_MINOR_SHARE = 5, 0.1  # .npz files do not name these
FILE_NAME = re.compile(
    r"(?P<source>.+)_train_blurry(?P<minor>\d+)(_(?P<noise>[^_]+))?_rand\d+_cls(?P<classes>\d+)_task(?P<task>\d+)\.json"
)
# Minor share, class ids in the order of the split's numbers, ends of tasks, rows among the train images, given labels.
Split = tuple[float, list[int], list[int], IntArray, IntArray]


def parse_published(spec: str) -> tuple[str, int, str]:
    """The noise, the seed and the order of "official:sym40:1:listed"; the last word may be left out."""
    match = re.fullmatch(rf"{WORD}:([^:]*):(\d{{1,9}})(?::({SHUFFLED}|{LISTED}))?", spec, re.ASCII)
    if match is None:
        allowed = f'"{WORD}:sym40:1" or "{WORD}:sym40:1:{LISTED}"'
        raise ValueError(f"an official stream should be {allowed}, but got {spec!r}")
    return match[1].replace("-", ""), int(match[2]), match[3] or SHUFFLED  # "sym-40" is "sym40"


def find_official(spec: str, source: DataSource, splits: Path | str) -> StreamManifest:
    """A published stream; `splits` is an .npz file, a folder with one named after the source, or one of JSON files."""
    noise, seed, order = parse_published(spec)
    # No noise was added where images have names.
    kind, rate = parse_noise(noise) if source.train.names is None else ("none", 0.0)
    npz = Path(splits) / f"{source.name}.npz" if Path(splits).is_dir() else Path(splits)
    try:
        if npz.is_file():
            split = _read_npz(npz, f"{kind}{round(rate * 100)}_seed{seed}_")
        else:
            split = _read_json(Path(splits), source, f"{kind}N{round(rate * 100)}", seed)
        return _to_manifest(split, source, kind, rate, seed, order == LISTED)
    except (DataError, TypeError, ValueError) as error:
        raise ManifestError(str(error) if isinstance(error, DataError) else f"{splits}: {error}") from error


def _to_manifest(split: Split, source: DataSource, kind: str, rate: float, seed: int, listed: bool) -> StreamManifest:
    """The manifest of a published stream; its labels and noise are checked against the data."""
    minor_share, class_order, ends, rows, labels = split
    rows = as_ids("indices", rows, len(source.train))
    require(len(rows) == len(labels), "labels", f"one for each index, {len(rows)}", len(labels))
    true = source.train.true_labels.numpy()[rows]
    realised = realised_noise(labels, true)
    # Images with names come with their own wrong labels.
    fine = source.train.names is not None or realised is None or abs(realised - rate) <= NOISE_TOLERANCE
    require(fine, "the share of wrong labels", f"{rate:.1%}", f"{realised or 0:.1%}: it is damaged or of other data")
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


def _read_npz(path: Path, prefix: str) -> Split:
    keys = [prefix + key for key in ("index", "label", "order")]
    arrays = read_arrays(path, keys)
    rows, labels, class_order = (as_ids(key, arrays[key], 1 << 62) for key in keys)
    ends = [len(rows) * (task + 1) // NPZ_TASKS for task in range(NPZ_TASKS)]
    return NPZ_MINOR_SHARE, class_order.tolist(), ends, rows, labels


def _read_json(folder: Path, source: DataSource, noise: str, seed: int) -> Split:
    import pandas as pd

    named, own = source.train.names is not None, pd.Series(source.train.labels.numpy())
    files, minor_share = _find_files(folder, source, None if named else noise, seed)
    places = (own.groupby(own).cumcount() + 1).tolist()  # of each image among those of its class
    numbered = [f"{source.class_names[label]}/{place}.png" for label, place in zip(own, places, strict=True)]
    row_of = {_short(name): row for row, name in enumerate(source.train.names or numbered)}
    require(len(row_of) == len(own), "folder and name of train images", "all different", "equal ones")
    left_out = {_short(name) for name in source.left_out}
    parts = []
    for path in files:
        lines = read_json(path)
        if not isinstance(lines, list) or not lines or not all(isinstance(line, dict) for line in lines):
            raise DataError(f"{path}: should hold a list of rows, each an object")
        part = pd.DataFrame(lines).reindex(columns=["file_name", "label", "true_label"])
        short = part.file_name.map(lambda name: _short(str(name)))
        part = part.assign(row=short.map(row_of), number=part.label if named else part.true_label)
        part = part[~short.isin(left_out)]
        if part.row.isna().any():
            wrong = part.file_name[part.row.isna()].iloc[0]
            raise DataError(f"{path}: each file_name should be one of the train images, but got {wrong!r}")
        parts.append(part)
    frame = pd.concat(parts, ignore_index=True).astype({"row": np.int64})
    meant = pd.DataFrame({"number": frame.number, "label": own[frame.row].to_numpy()}).drop_duplicates()
    classes = meant.set_index("number").label.sort_index()  # by the number that the split gives them
    labels = frame.label.map(classes.to_dict())
    fine = classes.is_unique and classes.index.is_unique and labels.notna().all()
    require(fine, "each label and true_label", "the number of one class", "some that contradict others")
    ends = np.cumsum([len(part) for part in parts]).tolist()
    return minor_share, classes.tolist(), ends, frame.row.to_numpy(), labels.to_numpy(np.int64)


def _find_files(folder: Path, source: DataSource, noise: str | None, seed: int) -> tuple[list[Path], float]:
    """The files of tasks 0, 1, ... and the minor share in their names; there, else below, as they are published."""
    pattern = f"*_train_blurry*_rand{seed}_cls*_task*.json"
    found: dict[int, Path] = {}
    n_tasks, minor_share = 1, 0.0
    for path in sorted(folder.glob(pattern)) or sorted(folder.rglob(pattern)):
        match = FILE_NAME.fullmatch(path.name)
        fits = match and (match["source"], match["noise"]) == (source.name, noise)
        if match and noise is None:  # "WebVision-V1-2" is webvision
            fits = re.sub(r"[^a-z0-9]", "", match["source"].lower()).startswith(source.name)
        if match and fits:
            require(int(match["task"]) not in found, "the files", "one for each task", f"two such as {path.name}")
            found[int(match["task"])] = path
            n_tasks, minor_share = len(source.class_names) // max(int(match["classes"]), 1), int(match["minor"]) / 100
    wanted = f"{source.name}.npz or all tasks (*_train_blurry10_{noise or 'NOISE'}_rand{seed}_cls2_task0.json, ...)"
    require(sorted(found) == list(range(n_tasks)), "the files", wanted, f"tasks {sorted(found) or 'none'}")
    return [found[task] for task in range(n_tasks)], minor_share


def _short(name: str) -> str:
    """The folder and the name of a file; a number without zeros before it."""
    return re.sub(r"/0+(?=\d+\.png$)", "/", "/".join(name.split("/")[-2:]))

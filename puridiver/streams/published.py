"""Imports the streams that the paper's authors published, as one .npz file or as JSON files.

Facts about them, measured: tasks are cut by the given label into equal parts (CIFAR-10: 5 x 10,000); the
major classes make up 90 % of each task (now and then 1 % less of the last but one) and about 81 % of the
last, which gets what is left over. Asymmetric noise swaps pairs of classes, other pairs for each seed. Most files
list a task's major classes first: see `puridiver.streams.names` for the order in which a stream comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from puridiver.data.base import DataSource
from puridiver.data.numpy_files import read_arrays
from puridiver.errors import DataError, ManifestError
from puridiver.streams.build import realised_noise
from puridiver.streams.checks import IntArray, as_labels
from puridiver.streams.manifest import StreamManifest, source_fields
from puridiver.streams.names import LISTED, parse_published
from puridiver.streams.noise import ClassMap, noise_kind, parse_noise
from puridiver.streams.tasks import group_classes

# How far the measured noise may be from the rate in a stream's name before the file counts as another's.
NOISE_TOLERANCE = 0.01


@dataclass(frozen=True)
class Split:
    """A published stream as its files give it, with class ids and train indices of the source."""

    where: str
    noise: tuple[str, float]  # kind and rate
    seed: int
    minor_share: float
    class_order: list[int]
    ends: list[int]  # of tasks
    index: IntArray
    labels: IntArray


def find_official(spec: str, source: DataSource, splits: Path | str) -> StreamManifest:
    """The published stream "official:sym40:1" (noise and seed; the first word may be left out).

    `splits` is an .npz file, a folder that holds one named after the source, or a folder of JSON files. With
    ":listed" at the end the stream comes in the order of the files, otherwise each task is shuffled.
    """
    noise, seed, order = parse_published(spec)
    parse_noise(noise)
    splits = Path(splits)
    npz = splits / f"{source.name}.npz" if splits.is_dir() else splits
    if npz.is_file():
        return from_npz(npz, source, noise, seed, listed=order == LISTED)
    if not splits.is_dir():
        raise ManifestError(f"{splits}: should be an .npz file or a folder of split files, but is not there")
    from puridiver.streams.published_json import read_split

    return to_manifest(read_split(splits, source, noise, seed), source, order == LISTED)


def from_npz(
    path: Path | str,
    source: DataSource,
    noise: str = "sym40",
    seed: int = 1,
    n_tasks: int = 5,
    minor_share: float = 0.1,
    listed: bool = False,
) -> StreamManifest:
    """A published stream from an .npz with keys <noise>_seed<k>_index, _label and _order.

    `_index` are train indices task by task, `_label` given class ids, `_order` class ids as the split numbers them.
    The file names neither tasks nor their blur, so both are arguments. Tasks are shuffled unless `listed`.
    """
    path = Path(path)
    kind, rate = parse_noise(noise)
    prefix = f"{kind}{round(rate * 100)}_seed{seed}_"
    keys = [prefix + key for key in ("index", "label", "order")]
    try:
        arrays = read_arrays(path, keys)
    except DataError as error:
        raise ManifestError(str(error)) from error
    for key in keys:
        array = arrays[key]
        if array.ndim != 1 or array.dtype.kind not in "iu" or (array.size and array.max() > 2**62):
            raise ManifestError(
                f"{path}: {key} should be integers of shape (N,), but is {array.dtype} of shape {array.shape}"
            )
    index, labels, class_order = (arrays[key].astype(np.int64) for key in keys)
    n_classes = len(source.class_names)
    if sorted(class_order.tolist()) != list(range(n_classes)):
        raise ManifestError(f"{path}: {prefix}order should hold each class id below {n_classes} once")
    ends = [len(index) * (task + 1) // n_tasks for task in range(n_tasks)]
    split = Split(str(path), (kind, rate), seed, minor_share, class_order.tolist(), ends, index, labels)
    return to_manifest(split, source, listed)


def to_manifest(split: Split, source: DataSource, listed: bool) -> StreamManifest:
    """The manifest of a published stream; its labels and noise are checked against the data."""
    (kind, rate), index, labels = split.noise, split.index, split.labels
    if len(index) != len(labels) or not len(index):
        raise ManifestError(
            f"{split.where}: there should be one label an index, but got {len(labels)} and {len(index)}"
        )
    if index.min() < 0 or index.max() >= len(source.train):
        raise ManifestError(
            f"{split.where}: indices should lie in 0 to {len(source.train) - 1}, but got {index.min()} to {index.max()}"
        )
    true = source.train.true_labels.numpy()[index]
    realised = realised_noise(labels, true)
    if realised is not None and abs(realised - rate) > NOISE_TOLERANCE:
        raise ManifestError(
            f"{split.where}: {rate:.1%} of the labels should be wrong, but {realised:.1%} are: "
            "the file is damaged or belongs to other data"
        )
    try:
        as_labels(labels, len(source.class_names))
        noise_map = _observed_map(true, labels) if noise_kind(kind).uses_map else None
        if not listed:
            index, labels = shuffled_within_tasks(index, labels, split.ends, split.seed)
        return StreamManifest(
            **source_fields(source), kind="official", seed=split.seed, n_tasks=len(split.ends),
            minor_share=split.minor_share, cut_by="given", noise=kind, noise_rate=rate, noise_map=noise_map,
            realised_noise=realised, task_ends=tuple(split.ends),
            major_classes=tuple(group_classes(split.class_order, len(split.ends), rest_to_last=True)),
            holdout=np.empty(0, dtype=np.int64), order=index, labels=labels,
        )  # fmt: skip
    except ValueError as error:
        raise ManifestError(f"{split.where}: {error}") from error


def shuffled_within_tasks(index: IntArray, labels: IntArray, ends: Sequence[int], seed: int) -> tuple[IntArray, ...]:
    """Both in one random order within each task, decided by the seed of the stream.

    The released program shuffles, too, but with a generator that everything else draws from, so that but for the first
    task its very order cannot be had.
    """
    generator = np.random.default_rng(seed)
    starts = [0, *ends[:-1]]
    order = np.concatenate([generator.permutation(np.arange(a, b)) for a, b in zip(starts, ends, strict=True)])
    return index[order], labels[order]


def _observed_map(true: IntArray, labels: IntArray) -> ClassMap | None:
    """The class map that the wrong labels follow; None where a class has several wrong labels."""
    wrong = labels != true
    pairs = sorted(set(zip(true[wrong].tolist(), labels[wrong].tolist(), strict=True)))
    return dict(pairs) if len(dict(pairs)) == len(pairs) else None

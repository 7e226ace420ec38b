"""Imports the streams that the paper's authors published.

Facts about them, measured: tasks are cut by the given label into equal parts (CIFAR-10: 5 x 10,000); the
major classes make up 90 % of each task (now and then 1 % less of the last but one) and about 81 % of the
last, which gets what is left over. Asymmetric noise swaps pairs of classes, other pairs for each seed. Most files
list a task's major classes first: see `puridiver.streams.names` for the order in which a stream comes.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from puridiver.data.base import DataSource
from puridiver.data.damage import DAMAGE
from puridiver.errors import ManifestError
from puridiver.streams.build import realised_noise
from puridiver.streams.checks import IntArray, as_labels
from puridiver.streams.manifest import StreamManifest, source_fields
from puridiver.streams.names import LISTED, parse_published
from puridiver.streams.noise import ClassMap, noise_kind, parse_noise
from puridiver.streams.official_json import read_tasks
from puridiver.streams.official_named import read_named_tasks
from puridiver.streams.tasks import group_classes

# How far the measured noise may be from the rate in a stream's name before the file counts as another's.
NOISE_TOLERANCE = 0.01


def find_official(spec: str, source: DataSource, splits: Path | str) -> StreamManifest:
    """The published stream "official:sym40:1" (noise and seed; the first word may be left out).

    `splits` is an .npz file, a folder that holds one named after the source, or a folder of JSON files. With
    ":listed" at the end it comes in the order of the files.
    """
    noise, seed, order = parse_published(spec)
    parse_noise(noise)
    listed = order == LISTED
    splits = Path(splits)
    npz = splits / f"{source.name}.npz" if splits.is_dir() else splits
    if npz.is_file():
        return from_npz(npz, source, noise, seed, listed=listed)
    if splits.is_dir():
        return from_json(splits, source, noise, seed, listed)
    raise ManifestError(f"{splits}: should be an .npz file or a folder of split files, but is not there")


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
    index, labels, class_order = _read_arrays(path, [prefix + key for key in ("index", "label", "order")])
    n_classes = len(source.class_names)
    if sorted(class_order.tolist()) != list(range(n_classes)):
        raise ManifestError(f"{path}: {prefix}order should hold each class id below {n_classes} once")
    ends = [len(index) * (task + 1) // n_tasks for task in range(n_tasks)]
    major = group_classes(class_order.tolist(), n_tasks, rest_to_last=True)
    return _manifest(str(path), source, (kind, rate), seed, minor_share, index, labels, ends, major, listed)


def shuffled_within_tasks(index: IntArray, labels: IntArray, ends: Sequence[int], seed: int) -> tuple[IntArray, ...]:
    """Both in one random order within each task, decided by the seed of the stream.

    The released program shuffles, too, but with a generator that everything else draws from, so that but for the first
    task its very order cannot be had.
    """
    generator = np.random.default_rng(seed)
    starts = [0, *ends[:-1]]
    order = np.concatenate([generator.permutation(np.arange(a, b)) for a, b in zip(starts, ends, strict=True)])
    return index[order], labels[order]


def _read_arrays(path: Path, keys: list[str]) -> list[IntArray]:
    # From memory, since NumPy leaves a file open when damage stops it.
    content = io.BytesIO(path.read_bytes())
    try:
        with zipfile.ZipFile(content), np.load(content, allow_pickle=False) as archive:
            missing = [key for key in keys if key not in archive]
            if missing:
                streams = sorted({name.rpartition("_")[0].replace("_seed", ":") for name in archive})
                wanted = keys[0].rpartition("_")[0].replace("_seed", ":")
                raise ManifestError(
                    f"{path}: should hold the stream {wanted} ({', '.join(keys)}), but holds {', '.join(streams)}"
                )
            arrays = [archive[key] for key in keys]
    except DAMAGE as error:
        raise ManifestError(f"{path}: not an .npz file, or a damaged one: {error}") from error
    for key, array in zip(keys, arrays, strict=True):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ManifestError(
                f"{path}: {key} should be integers of shape (N,), but is {array.dtype} of shape {array.shape}"
            )
    return [array.astype(np.int64) for array in arrays]


def from_json(
    paths: Path | str | list[Path],
    source: DataSource,
    noise: str | None = None,
    seed: int | None = None,
    listed: bool = False,
) -> StreamManifest:
    """A published stream from its JSON files: all tasks in order, or a folder that holds them.

    In a folder, `noise` ("sym40") and `seed` say which stream. File paths say it in their names. Tasks are shuffled
    unless `listed`.
    """
    if source.train.names is not None and isinstance(paths, str | Path):
        split = read_named_tasks(Path(paths), source, 1 if seed is None else seed)
    else:
        split = read_tasks(paths, source, noise, seed)
    ends = np.cumsum([len(part) for part in split.indices]).tolist()
    return _manifest(
        split.where,
        source,
        (split.noise, split.noise_rate),
        split.seed,
        split.minor_share,
        np.concatenate(split.indices),
        np.concatenate(split.labels),
        ends,
        group_classes(split.class_order, len(split.indices), rest_to_last=True),
        listed,
    )


def _manifest(
    where: str,
    source: DataSource,
    noise: tuple[str, float],
    seed: int,
    minor_share: float,
    index: IntArray,
    labels: IntArray,
    ends: list[int],
    major: list[tuple[int, ...]],
    listed: bool,
) -> StreamManifest:
    kind, rate = noise
    true = _true_labels(where, source, index, labels)
    realised = realised_noise(labels, true)
    if realised is not None and abs(realised - rate) > NOISE_TOLERANCE:
        raise ManifestError(
            f"{where}: {rate:.1%} of the labels should be wrong, but {realised:.1%} are: "
            "the file is damaged or belongs to other data"
        )
    noise_map = _observed_map(true, labels) if noise_kind(kind).uses_map else None
    if not listed:
        index, labels = shuffled_within_tasks(index, labels, ends, seed)
    try:
        return StreamManifest(
            **source_fields(source),
            kind="official",
            seed=seed,
            n_tasks=len(ends),
            minor_share=minor_share,
            cut_by="given",
            noise=kind,
            noise_rate=rate,
            noise_map=noise_map,
            realised_noise=realised,
            task_ends=tuple(ends),
            major_classes=tuple(major),
            holdout=np.empty(0, dtype=np.int64),
            order=index,
            labels=labels,
        )
    except ValueError as error:
        raise ManifestError(f"{where}: {error}") from error


def _true_labels(where: str, source: DataSource, index: IntArray, labels: IntArray) -> IntArray:
    if len(index) != len(labels) or not len(index):
        raise ManifestError(f"{where}: there should be one label an index, but got {len(labels)} and {len(index)}")
    if index.min() < 0 or index.max() >= len(source.train):
        raise ManifestError(
            f"{where}: indices should lie in 0 to {len(source.train) - 1}, but got {index.min()} to {index.max()}"
        )
    try:
        as_labels(labels, len(source.class_names))
    except ValueError as error:
        raise ManifestError(f"{where}: {error}") from error
    return source.train.true_labels.numpy()[index]


def _observed_map(true: IntArray, labels: IntArray) -> ClassMap | None:
    """The class map that the wrong labels follow; None where a class has several wrong labels."""
    wrong = labels != true
    pairs = sorted(set(zip(true[wrong].tolist(), labels[wrong].tolist(), strict=True)))
    return dict(pairs) if len(dict(pairs)) == len(pairs) else None

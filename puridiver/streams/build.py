"""Makes a stream from a data source and a seed: holdout, label noise, tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from puridiver.data.base import UNKNOWN, DataSource
from puridiver.errors import few
from puridiver.streams.blurry import blurry_tasks
from puridiver.streams.checks import IntArray, check_choice
from puridiver.streams.disjoint import disjoint_tasks
from puridiver.streams.imbalance import BALANCED, check_imbalance, thinned
from puridiver.streams.manifest import CUTS, StreamManifest, source_fields
from puridiver.streams.matrix import MATRIX, PREFIX, Matrix, as_matrix, matrix_name, read_matrix
from puridiver.streams.noise import (
    ClassMap,
    Spoiling,
    check_class_map,
    check_noise_kind,
    next_class_map,
    noise_kind,
    noise_name,
    parse_noise,
)
from puridiver.streams.tasks import Tasks, TooUnequalError
from puridiver.streams.time import time_tasks


@dataclass(frozen=True)
class Cut:
    """What a cutter of tasks may look at."""

    labels: IntArray
    n_classes: int
    n_tasks: int
    minor_share: float
    times: np.ndarray | None  # of each sample
    rng: np.random.Generator
    rest_to_last: bool  # where classes do not divide: as older versions made streams


CUTTERS: dict[str, Callable[[Cut], Tasks]] = {
    "blurry": lambda cut: blurry_tasks(
        cut.labels, cut.n_classes, cut.n_tasks, cut.minor_share, cut.rng, cut.rest_to_last
    ),
    "disjoint": lambda cut: disjoint_tasks(cut.labels, cut.n_classes, cut.n_tasks, cut.rng, cut.rest_to_last),
    "time": lambda cut: time_tasks(cut.labels, cut.n_classes, cut.n_tasks, cut.times),
}


def make_stream(
    source: DataSource,
    *,
    kind: str = "blurry",
    n_tasks: int = 5,
    minor_share: float = 0.1,
    noise: str | tuple[str, float] = "sym-40",
    noise_map: ClassMap | None = None,
    noise_file: Path | str | None = None,
    noise_matrix: ArrayLike | None = None,
    imbalance: float = BALANCED,
    seed: int = 0,
    holdout: int = 0,
    cut_by: str = "given",
    rest_to_last: bool = False,
) -> StreamManifest:
    """Make a seeded stream over the train images of a source.

    Parameters
    ----------
    kind
        "blurry" (the paper's), "disjoint" (SPR's) or "time" (the order of the samples' timestamps, tasks being
        equal parts of it); where it is not blurry, or one task has all classes, `minor_share` has no meaning and
        counts as 0.
    noise
        A spec such as "sym-40", "asym-20", "instance-30", "human:worst", "matrix:T.npy", "matrix" or "none", or a pair
        (kind, rate). It comes on top of the labels that the source gives, of which some must be known to be right or
        wrong.
    noise_file
        For human noise, the published label file (see `puridiver.streams.human`).
    noise_matrix
        For the noise "matrix", the transition matrix itself: row the true class, column the given one.
    noise_map
        For asymmetric noise, class id to class id; by default the source's map, else the next class.
    imbalance
        Below 1 the classes (by the source's labels, before noise) become long-tailed: the rarest has this share of the
        most frequent one's samples, and the rest of the samples stays out of the stream.
    holdout
        How many train samples stay out of the stream for validation, balanced over the source's labels.
    cut_by
        Whether tasks are cut by the "given" (noisy) labels, as published, or by the "true" ones.

    The holdout, the noise, the tasks and the imbalance draw from independent generators, so that the same seed puts
    the same labels wrong whatever the tasks are.
    """
    check_choice("kind", kind, CUTTERS)
    check_choice("cut_by", cut_by, CUTS)
    kind_of_noise, rate, matrix = _read_noise(noise, noise_matrix)
    check_noise_kind(kind_of_noise, matrix, len(source.class_names))
    class_map = _choose_map(source, kind_of_noise, noise_map)
    _check_measurable(source, kind_of_noise, rate)
    holdout_rng, noise_rng, tasks_rng, imbalance_rng = _generators(seed)

    labels, n_classes = _source_labels(source), len(source.class_names)
    held, samples = _held_and_streamed(labels, n_classes, holdout, holdout_rng, imbalance, imbalance_rng)
    true = _true_labels(source, samples, cut_by)
    images = source.train.images
    spoiling = Spoiling(labels[samples], samples, n_classes, rate, noise_rng, class_map, images, noise_file, matrix)
    given = noise_kind(kind_of_noise).apply(spoiling)
    share, cut_labels = minor_share if kind == "blurry" and n_tasks > 1 else 0.0, given if cut_by == "given" else true
    cut = Cut(cut_labels, n_classes, n_tasks, share, _times(source, samples), tasks_rng, rest_to_last)
    tasks = _cut_tasks(kind, cut, source.class_names)
    return StreamManifest(
        **source_fields(source), kind=kind, seed=seed, n_tasks=n_tasks, minor_share=float(share), cut_by=cut_by,
        noise=kind_of_noise, noise_rate=float(rate), noise_map=class_map, realised_noise=realised_noise(given, true),
        task_ends=tasks.ends, major_classes=tuple(tasks.major_classes), holdout=held,
        order=samples[tasks.order], labels=given[tasks.order], noise_matrix=matrix, imbalance=float(imbalance),
    )  # fmt: skip


def _held_and_streamed(
    labels: IntArray, n_classes: int, holdout: int, holdout_rng: np.random.Generator, imbalance: float,
    imbalance_rng: np.random.Generator,
) -> tuple[IntArray, IntArray]:  # fmt: skip
    """Rows kept out for validation, and those of the stream, which may be long-tailed."""
    held = draw_holdout(labels, n_classes, holdout, holdout_rng)
    samples = np.setdiff1d(np.arange(len(labels)), held)
    return held, samples[thinned(labels[samples], n_classes, check_imbalance(imbalance), imbalance_rng)]


def _read_noise(noise: str | tuple[str, float], noise_matrix: ArrayLike | None) -> tuple[str, float, Matrix | None]:
    """Kind and rate, and the matrix, if the noise is one: from the file that the spec names, or as it is given."""
    if not isinstance(noise, str):
        return *noise, None if noise_matrix is None else as_matrix(noise_matrix)
    if noise == MATRIX:
        if noise_matrix is None:
            raise ValueError('the noise "matrix" needs noise_matrix, an array, or a file: "matrix:T.npy"')
        matrix = as_matrix(noise_matrix)
        return matrix_name(matrix), 0.0, matrix
    if noise_matrix is not None:
        raise ValueError(f'noise_matrix should go with noise="matrix", but the noise is {noise!r}')
    matrix_of_file = read_matrix(noise.removeprefix(PREFIX)) if noise.startswith(PREFIX) else None
    return *parse_noise(noise), matrix_of_file


def _check_measurable(source: DataSource, kind: str, rate: float) -> None:
    """Refuse to plant noise where nobody could say how many labels are wrong afterwards."""
    if kind != "none" and not source.train.truth_known:
        raise ValueError(
            f"noise {noise_name(kind, rate)} cannot be planted in {source.name!r}, whose true labels are not "
            "known: the noise should be none, or say --trust-labels to take the labels it has for true"
        )


def _cut_tasks(kind: str, cut: Cut, class_names: tuple[str, ...]) -> Tasks:
    """The tasks. Where classes without samples leave one of them empty, the others are grouped without these."""
    try:
        return _cut_all(kind, cut)
    except TooUnequalError as error:
        there = np.unique(cut.labels)
        if len(there) == cut.n_classes:
            raise
        if len(there) < cut.n_tasks:
            empty = few(name for label, name in enumerate(class_names) if label not in there)
            raise ValueError(
                f"the number of tasks should be from 1 to that of classes with samples, {len(there)}, but got "
                f"{cut.n_tasks}: no sample of the stream is labelled {empty}"
            ) from error
    # Only now, so that streams which could be cut before stay what they are.
    tasks = _cut_all(kind, replace(cut, labels=np.searchsorted(there, cut.labels), n_classes=len(there)))
    return Tasks(tasks.indices, [tuple(there[list(group)].tolist()) for group in tasks.major_classes])


def _cut_all(kind: str, cut: Cut) -> Tasks:
    tasks = CUTTERS[kind](cut)
    sizes = np.diff([0, *tasks.ends]).tolist()
    if 0 in sizes:
        raise TooUnequalError(f"task {sizes.index(0) + 1} of {len(sizes)} would have no samples; cut fewer tasks")
    return tasks


def _true_labels(source: DataSource, samples: IntArray, cut_by: str) -> IntArray:
    """As far as they are known, which they must be where tasks are cut by them."""
    true = source.train.true_labels.numpy()[samples]
    if cut_by == "true" and (true == UNKNOWN).any():
        raise ValueError("tasks cannot be cut by true labels, since not all of them are known: cut them by the given")
    return true


def _times(source: DataSource, samples: IntArray) -> np.ndarray | None:
    return None if source.train.times is None else source.train.times.numpy()[samples]


def realised_noise(given: IntArray, true: IntArray) -> float | None:
    """The share of wrong labels among those whose true label is known; None without any."""
    known = true != UNKNOWN
    return float(np.mean(given[known] != true[known])) if known.any() else None


def _source_labels(source: DataSource) -> IntArray:
    if not len(source.train):
        raise ValueError(f"a stream needs train images, but {source.name!r} has none")
    return source.train.labels.numpy()


def _choose_map(source: DataSource, kind: str, noise_map: ClassMap | None) -> ClassMap | None:
    if not noise_kind(kind).uses_map:
        if noise_map is not None:
            raise ValueError(f"a noise map should go with asymmetric noise, but the noise is {kind!r}")
        return None
    chosen = noise_map or source.asymmetric_map or next_class_map(len(source.class_names))
    check_class_map(chosen, len(source.class_names))
    return dict(chosen)


def _generators(seed: int) -> list[np.random.Generator]:
    if seed < 0:
        raise ValueError(f"seed should be at least 0, but got {seed}")
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(4)]


def draw_holdout(labels: IntArray, n_classes: int, n_held: int, rng: np.random.Generator) -> IntArray:
    """Sorted indices of n_held samples, as many of each class; what is left over to random classes."""
    if not 0 <= n_held < max(len(labels), 1):
        raise ValueError(f"holdout should be from 0 to below the {len(labels)} samples, but got {n_held}")
    quota = np.full(n_classes, n_held // n_classes)
    quota[rng.permutation(n_classes)[: n_held % n_classes]] += 1
    counts = np.bincount(labels, minlength=n_classes)
    if (quota > counts).any():
        short = int(np.argmax(quota - counts))
        raise ValueError(
            f"a holdout of {n_held} takes {quota[short]} samples of class {short}, but it has only {counts[short]}"
        )
    picks = [rng.permutation(np.flatnonzero(labels == c))[: quota[c]] for c in range(n_classes)]
    return np.sort(np.concatenate(picks))

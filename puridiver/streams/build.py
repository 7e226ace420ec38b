"""Makes a stream from a data source and a seed: holdout, imbalance, label noise, tasks."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from puridiver.data.base import UNKNOWN, DataSource
from puridiver.errors import few
from puridiver.streams.checks import IntArray, check_choice, parse_share
from puridiver.streams.imbalance import BALANCED, check_imbalance, thinned
from puridiver.streams.manifest import CUTS, StreamManifest, check_noise, source_fields
from puridiver.streams.names import MATRIX_FILE, is_manifest, is_published
from puridiver.streams.noise import (
    ClassMap,
    Matrix,
    NoiseSetting,
    apply_noise,
    check_class_map,
    next_class_map,
    noise_kind,
    noise_name,
    parse_noise,
)
from puridiver.streams.tasks import CUTTERS, Cut, Tasks, TooUnequalError


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
) -> StreamManifest:
    """Make a seeded stream over the train images of a source.

    Parameters
    ----------
    kind
        "blurry" (the paper's), "disjoint" (SPR's) or "time" (the order of the samples' timestamps, tasks being
        equal parts of it). Only blurry tasks, if there are several, have a `minor_share`; elsewhere it counts as 0.
    noise
        A spec such as "sym-40", "asym-20", "instance-30", "human:worst", "matrix:T.npy", "matrix" or "none", or a pair
        (kind, rate). It comes on top of the labels that the source gives, of which some must be known to be right or
        wrong.
    noise_file
        For human noise, the published label file (see `puridiver.streams.noises.human`).
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
    noise_id, rate, matrix = _read_noise(noise, noise_matrix)
    n_classes = len(source.class_names)
    check_noise(noise_id, matrix, n_classes)
    class_map = _choose_map(source, noise_id, noise_map)
    labels = _check_source(source, noise_id, rate)
    if seed < 0:
        raise ValueError(f"seed should be at least 0, but got {seed}")
    children = np.random.SeedSequence(seed).spawn(4)
    holdout_rng, noise_rng, tasks_rng, imbalance_rng = (np.random.default_rng(child) for child in children)

    held = draw_holdout(labels, n_classes, holdout, holdout_rng)
    samples = np.setdiff1d(np.arange(len(labels)), held)
    samples = samples[thinned(labels[samples], n_classes, check_imbalance(imbalance), imbalance_rng)]
    true = source.train.true_labels.numpy()[samples]
    if cut_by == "true" and (true == UNKNOWN).any():
        raise ValueError("tasks cannot be cut by true labels, since not all of them are known: cut them by the given")
    setting = NoiseSetting(n_classes, rate, samples, source.train.images, class_map, noise_file, matrix)
    given = apply_noise(noise_id, labels[samples], noise_rng, setting)
    times = None if source.train.times is None else source.train.times.numpy()[samples]
    share = minor_share if kind == "blurry" and n_tasks > 1 else 0.0
    cut = Cut(given if cut_by == "given" else true, n_classes, n_tasks, share, times, tasks_rng)
    tasks = _cut_tasks(kind, cut, source.class_names)
    return StreamManifest(
        **source_fields(source), kind=kind, seed=seed, n_tasks=n_tasks, minor_share=float(share), cut_by=cut_by,
        noise=noise_id, noise_rate=float(rate), noise_map=class_map, realised_noise=realised_noise(given, true),
        task_ends=tasks.ends, major_classes=tuple(tasks.major_classes), holdout=held,
        order=samples[tasks.order], labels=given[tasks.order], noise_matrix=matrix, imbalance=float(imbalance),
    )  # fmt: skip


def _read_noise(noise: str | tuple[str, float], noise_matrix: ArrayLike | None) -> tuple[str, float, Matrix | None]:
    """Kind and rate, and the matrix, if the noise is one: from the file that the spec names, or as it is given."""
    if noise_matrix is not None:
        from puridiver.streams.noises.matrix import as_matrix, matrix_name

        if isinstance(noise, str) and noise != "matrix":
            raise ValueError(f'noise_matrix should go with noise="matrix", but the noise is {noise!r}')
        matrix = as_matrix(noise_matrix)
        return (matrix_name(matrix), 0.0, matrix) if isinstance(noise, str) else (*noise, matrix)
    if not isinstance(noise, str):
        return *noise, None
    if noise == "matrix":
        raise ValueError('the noise "matrix" needs noise_matrix, an array, or a file: "matrix:T.npy"')
    if noise.startswith(MATRIX_FILE):
        from puridiver.streams.noises.matrix import read_matrix

        return *parse_noise(noise), read_matrix(noise.removeprefix(MATRIX_FILE))
    return *parse_noise(noise), None


def _check_source(source: DataSource, kind: str, rate: float) -> IntArray:
    """The labels that the source gives; noise is refused where nobody could say how many are wrong afterwards."""
    if not len(source.train):
        raise ValueError(f"a stream needs train images, but {source.name!r} has none")
    if kind != "none" and not source.train.truth_known:
        raise ValueError(
            f"noise {noise_name(kind, rate)} cannot be planted in {source.name!r}, whose true labels are not "
            "known: the noise should be none, or say --trust-labels to take the labels it has for true"
        )
    return source.train.labels.numpy()


def _choose_map(source: DataSource, kind: str, noise_map: ClassMap | None) -> ClassMap | None:
    if not noise_kind(kind).uses_map:
        if noise_map is not None:
            raise ValueError(f"a noise map should go with asymmetric noise, but the noise is {kind!r}")
        return None
    chosen = noise_map or source.asymmetric_map or next_class_map(len(source.class_names))
    check_class_map(chosen, len(source.class_names))
    return dict(chosen)


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
    tasks = _cut_all(kind, replace(cut, labels=np.searchsorted(there, cut.labels), n_classes=len(there)))
    return Tasks(tasks.indices, [tuple(there[list(group)].tolist()) for group in tasks.major_classes])


def _cut_all(kind: str, cut: Cut) -> Tasks:
    tasks = CUTTERS[kind](cut)
    sizes = np.diff([0, *tasks.ends]).tolist()
    if 0 in sizes:
        raise TooUnequalError(f"task {sizes.index(0) + 1} of {len(sizes)} would have no samples; cut fewer tasks")
    return tasks


def realised_noise(given: IntArray, true: IntArray) -> float | None:
    """The share of wrong labels among those whose true label is known; None without any."""
    known = true != UNKNOWN
    return float(np.mean(given[known] != true[known])) if known.any() else None


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


# Streams by a short text -------------------------------------------------------------------------------------------


def resolve_stream(spec: str, source: DataSource, splits: Path | str | None = None, **options: Any) -> StreamManifest:
    """The stream that a spec names.

    Parameters
    ----------
    spec
        "blurry-10", "blurry-10:sym-40", "disjoint", "disjoint:asym-40", "time": made here; "official:sym40:1":
        published, read from `splits`, each task shuffled ("official:sym40:1:listed": in the files' order); anything
        that ends in .json: the path of a manifest.
    splits
        Where the published split files lie (see `puridiver.streams.published.find_official`).
    options
        Those of `make_stream`, for streams that are made here; what the spec says goes before them.
    """
    if is_manifest(spec):
        return StreamManifest.load(spec)
    if is_published(spec):
        from puridiver.streams.published import find_official

        if splits is None:
            raise ValueError(f"{spec!r} is read from the published split files: say where they lie (splits)")
        return find_official(spec, source, splits)
    return make_stream(source, **{**options, **parse_stream(spec)})


def parse_stream(spec: str) -> dict[str, Any]:
    """Read "blurry-10:sym-40" or "disjoint" as options of `make_stream`."""
    tasks, colon, noise = spec.partition(":")
    match = re.fullmatch(r"blurry-?([\d.]+)", tasks)
    if match is None and tasks not in ("disjoint", "time"):
        raise ValueError(
            'a stream should be "blurry-10", "blurry-10:sym-40", "disjoint", "time", "official:sym40:1", '
            f'"official:sym40:1:listed" or the path of a manifest (.json), but got {spec!r}'
        )
    if noise.startswith(MATRIX_FILE):
        raise ValueError(
            f"a noise matrix has no place in the name of a stream: say --noise {noise} and --stream {tasks}"
        )
    options: dict[str, Any] = {"kind": tasks}
    if match:
        options = {"kind": "blurry", "minor_share": parse_share(match[1], f"the minor share of {spec!r}")}
    return {**options, "noise": parse_noise(noise)} if colon else options

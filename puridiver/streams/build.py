"""Makes a stream from a data source: by a seed, by a short text, or by hand."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from puridiver.data.base import DataSource
from puridiver.streams.checks import IntArray, as_ids, require
from puridiver.streams.manifest import StreamManifest
from puridiver.streams.noise import ClassMap, NoiseSetting, noise_kind, parse_share, read_noise
from puridiver.streams.published import WORD, find_official
from puridiver.streams.tasks import BLURRY, CUTTERS, fullest_tasks


def make_stream(
    source: DataSource,
    *,
    kind: str = "blurry",  # the paper's; or "disjoint" (SPR's), "i-blurry", "time" (parts of the order of timestamps)
    n_tasks: int = 5,
    minor_share: float = 0.1,  # of blurry tasks, if there are several; elsewhere it counts as 0
    disjoint_share: float = 0.5,  # of the classes, in i-Blurry tasks
    noise: str = "sym-40",  # a spec: see `parse_noise`, or "matrix:FILE"
    noise_map: ClassMap | None = None,  # of asymmetric noise; by default the source's map, else the next class
    noise_file: Path | str | None = None,  # of human noise: the published label file
    imbalance: float | None = None,  # long-tailed classes: images of the rarest for each image of the most frequent
    seed: int = 0,
    holdout: int = 0,  # train samples that stay out of the stream for validation, balanced over the source's labels
) -> StreamManifest:
    """Make a seeded stream over the train images of a source; noise is added to the labels that the source gives.

    Tasks are cut by the noisy labels, as published. The holdout, the noise, the tasks and the imbalance draw from
    independent generators, so that the same seed puts the same labels wrong whatever the tasks are.
    """
    n_classes, labels = len(source.class_names), source.train.labels.numpy()
    require(kind in CUTTERS, "kind", f"one of {', '.join(CUTTERS)}", kind)
    require(0 <= holdout < len(labels), "holdout", f"from 0 to below the {len(labels)} train images", holdout)
    noise_id, rate, class_map, matrix = read_noise(source, noise, noise_map)
    children = np.random.SeedSequence(seed).spawn(4)
    holdout_rng, noise_rng, tasks_rng, imbalance_rng = map(np.random.default_rng, children)

    held = draw_holdout(labels, n_classes, holdout, holdout_rng) if holdout else np.arange(0)
    samples = np.setdiff1d(np.arange(len(labels)), held)
    if imbalance is not None:
        samples = samples[long_tail(labels[samples], imbalance, imbalance_rng)]
    setting = NoiseSetting(n_classes, rate, samples, source.train.images, class_map, noise_file, matrix)
    given = noise_kind(noise_id).apply(noise_rng, labels[samples], setting)
    times = None if source.train.times is None else source.train.times.numpy()[samples]
    share = float(minor_share) if kind in BLURRY and n_tasks > 1 else 0.0
    disjoint = float(disjoint_share) if kind == "i-blurry" else None
    there, numbers = np.unique(given, return_inverse=True)  # the classes that occur
    tasks = CUTTERS[kind](numbers, len(there), n_tasks, tasks_rng, share, times, disjoint)
    order = np.concatenate(tasks.indices)
    return StreamManifest.of(
        source, samples[order], given[order], kind=kind, seed=seed, n_tasks=n_tasks, minor_share=share,
        noise=noise_id, noise_rate=float(rate), noise_map=class_map, noise_matrix=matrix, imbalance=imbalance,
        disjoint_share=disjoint,
        task_ends=tuple(np.cumsum(list(map(len, tasks.indices))).tolist()),
        major_classes=tuple(tuple(there[list(group)].tolist()) for group in tasks.major_classes), holdout=held,
    )  # fmt: skip


def draw_holdout(labels: IntArray, n_classes: int, n_held: int, rng: np.random.Generator) -> IntArray:
    """Sorted indices of n_held samples, balanced over classes; random classes get the remainder."""
    quota = np.full(n_classes, n_held // n_classes)
    quota[rng.permutation(n_classes)[: n_held % n_classes]] += 1
    counts = np.bincount(labels, minlength=n_classes)
    c = int(np.argmax(quota - counts))
    require(quota[c] <= counts[c], "holdout", f"{counts[c]} or fewer of class {c}", f"{n_held} with {quota[c]} of it")
    picks = [rng.permutation(np.flatnonzero(labels == c))[: quota[c]] for c in range(n_classes)]
    return np.sort(np.concatenate(picks))


def long_tail(labels: IntArray, imbalance: float, rng: np.random.Generator) -> IntArray:
    """Sorted indices of the samples that stay: of the r-th of C classes, in random order, n imbalance^(r / (C - 1)).

    As since Cui et al., "Class-balanced loss" (CVPR 2019); n is as high as the data allow.
    """
    require(0 < imbalance <= 1, "imbalance", "above 0 and at most 1", imbalance)
    classes, counts = np.unique(labels, return_counts=True)
    shares = imbalance ** (rng.permutation(len(classes)) / max(len(classes) - 1, 1))
    quotas = np.rint((counts / shares).min() * shares).clip(1).astype(int)
    kept = [rng.permutation(np.flatnonzero(labels == c))[:n] for c, n in zip(classes, quotas, strict=True)]
    return np.sort(np.concatenate(kept))


def resolve_stream(spec: str, source: DataSource, splits: Path | str | None = None, **options: Any) -> StreamManifest:
    """The stream that a spec names: the path of a manifest (.json), a published one, or one that is made here.

    "official:sym40:1" is published, and read from `splits`. "blurry-10", "disjoint", "i-blurry-50-10" (half of the
    classes disjoint, the others blurry-10) and "time" are made with the options of `make_stream`.
    """
    if spec.endswith(".json"):
        return StreamManifest.load(spec)
    if spec.startswith(f"{WORD}:"):
        return find_official(spec, source, splits or "")
    match = re.fullmatch(r"(blurry)-?([\d.]+)|(i-blurry)-([\d.]+)-([\d.]+)|(disjoint|time)", spec)
    if match is None:
        raise ValueError(
            "a stream should be blurry-10, disjoint, i-blurry-50-10, time, official:sym40:1, official:sym40:1:listed "
            f"or a path (.json), but got {spec} (--noise says its noise)"
        )
    options["kind"] = match[1] or match[3] or match[6]
    if minor := match[2] or match[5]:
        options["minor_share"] = parse_share(minor, f"the minor share of {spec!r}")
    if match[4]:
        options["disjoint_share"] = parse_share(match[4], f"the share of disjoint classes of {spec!r}")
    return make_stream(source, **options)


def write_manifest(
    path: Path | str,
    source: DataSource,
    order: ArrayLike,  # rows of train images, as they arrive
    labels: ArrayLike | None = None,  # for each arrival, the class id given; without it, the data's own
    task_ends: Sequence[int] | None = None,  # for each task, how many samples have arrived; without it, one task
    holdout: ArrayLike = (),  # rows of train images that do not arrive, for `--evaluate-on validation`
) -> StreamManifest:
    """Write the manifest of a stream with your own order and labels, for `puridiver run --stream PATH`."""
    require(str(path).endswith(".json"), "a manifest", "called *.json, by which a run knows it", path)
    n_train, n_classes = len(source.train), len(source.class_names)
    rows = as_ids("order", order, n_train)
    require(len(rows), "order", "at least one row", "none")
    own = source.train.labels.numpy()[rows]
    given = own if labels is None else as_ids("labels", labels, n_classes)
    ends = as_ids("task_ends", [len(rows)] if task_ends is None else task_ends, len(rows) + 1)
    manifest = StreamManifest.of(
        source, rows, given, kind="custom", seed=0, n_tasks=len(ends),
        noise="none" if np.array_equal(given, own) else "custom", task_ends=tuple(ends.tolist()),
        holdout=as_ids("holdout", holdout, n_train),
        major_classes=tuple(fullest_tasks(np.split(given, ends[:-1]), n_classes)),
    )  # fmt: skip
    manifest.save(path)
    return manifest

"""Makes a stream from a data source and a seed, and makes it again to verify it."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from puridiver.data.base import UNKNOWN, DataSource
from puridiver.errors import ManifestError, few
from puridiver.streams.checks import IntArray, as_ids, parse_share, require
from puridiver.streams.manifest import BALANCED, CUSTOM, CUTS, StreamManifest, realised_noise
from puridiver.streams.names import MATRIX_FILE, is_manifest, is_published
from puridiver.streams.noise import ClassMap, NoiseSetting, apply_noise, noise_kind, read_noise
from puridiver.streams.stream import check_belongs
from puridiver.streams.tasks import CUTTERS, cut_tasks, fullest_tasks


def make_stream(
    source: DataSource,
    *,
    kind: str = "blurry",  # the paper's; or "disjoint" (SPR's), "time" (equal parts of the order of timestamps)
    n_tasks: int = 5,
    minor_share: float = 0.1,  # of blurry tasks, if there are several; elsewhere it counts as 0
    noise: str | tuple[str, float] = "sym-40",  # a spec (see `parse_noise`), "matrix", or a pair (kind, rate)
    noise_map: ClassMap | None = None,  # of asymmetric noise; by default the source's map, else the next class
    noise_file: Path | str | None = None,  # of human noise: the published label file
    noise_matrix: ArrayLike | None = None,  # of noise "matrix": row the true class, column the given one
    imbalance: float = BALANCED,  # below 1, the rarest class's share of the most frequent one's samples
    seed: int = 0,
    holdout: int = 0,  # train samples that stay out of the stream for validation, balanced over the source's labels
    cut_by: str = "given",  # tasks are cut by the "given" (noisy) labels, as published, or by the "true" ones
) -> StreamManifest:
    """Make a seeded stream over the train images of a source; noise comes on top of the labels that it gives.

    The holdout, the noise, the tasks and the imbalance draw from independent generators, so that the same seed puts
    the same labels wrong whatever the tasks are.
    """
    n_classes, labels = len(source.class_names), source.train.labels.numpy()
    require(kind in CUTTERS, "kind", f"one of {', '.join(CUTTERS)}", kind)
    require(cut_by in CUTS, "cut_by", f"one of {', '.join(CUTS)}", cut_by)
    require(seed >= 0, "seed", "at least 0", seed)
    require(0 <= holdout < len(labels), "holdout", f"from 0 to below the {len(labels)} train images", holdout)
    require(0 < imbalance <= 1, "imbalance", "above 0 and at most 1", imbalance)
    noise_id, rate, class_map, matrix = read_noise(source, noise, noise_map, noise_matrix)
    children = np.random.SeedSequence(seed).spawn(4)
    holdout_rng, noise_rng, tasks_rng, imbalance_rng = (np.random.default_rng(child) for child in children)

    held = draw_holdout(labels, n_classes, holdout, holdout_rng)
    samples = np.setdiff1d(np.arange(len(labels)), held)
    samples = samples[thinned(labels[samples], n_classes, imbalance, imbalance_rng)]
    true = source.train.true_labels.numpy()[samples]
    if cut_by == "true" and (true == UNKNOWN).any():
        raise ValueError("tasks cannot be cut by true labels, since not all of them are known: cut them by the given")
    setting = NoiseSetting(n_classes, rate, samples, source.train.images, class_map, noise_file, matrix)
    given = apply_noise(noise_id, labels[samples], noise_rng, setting)
    times = None if source.train.times is None else source.train.times.numpy()[samples]
    share = float(minor_share) if kind == "blurry" and n_tasks > 1 else 0.0
    tasks = cut_tasks(kind, given if cut_by == "given" else true, n_tasks, tasks_rng, share, times)
    order = np.concatenate(tasks.indices)
    return StreamManifest.of(
        source, samples[order], given[order], kind=kind, seed=seed, n_tasks=n_tasks, minor_share=share, cut_by=cut_by,
        noise=noise_id, noise_rate=float(rate), noise_map=class_map, noise_matrix=matrix, imbalance=float(imbalance),
        task_ends=tuple(np.cumsum([len(part) for part in tasks.indices]).tolist()),
        major_classes=tuple(tasks.major_classes), holdout=held,
    )  # fmt: skip


def draw_holdout(labels: IntArray, n_classes: int, n_held: int, rng: np.random.Generator) -> IntArray:
    """Sorted indices of n_held samples, as many of each class; what is left over to random classes."""
    quota = np.full(n_classes, n_held // n_classes)
    quota[rng.permutation(n_classes)[: n_held % n_classes]] += 1
    counts = np.bincount(labels, minlength=n_classes)
    c = int(np.argmax(quota - counts))
    require(quota[c] <= counts[c], "holdout", f"{counts[c]} or fewer of class {c}", f"{n_held} with {quota[c]} of it")
    picks = [rng.permutation(np.flatnonzero(labels == c))[: quota[c]] for c in range(n_classes)]
    return np.sort(np.concatenate(picks))


def thinned(labels: IntArray, n_classes: int, imbalance: float, rng: np.random.Generator) -> IntArray:
    """Which samples stay, in their order, so that the rarest class has `imbalance` of the most frequent one's.

    As since Cui et al., "Class-balanced loss" (CVPR 2019): of C classes in random order, class r keeps
    n imbalance^(r / (C - 1)) samples, at least one. n is as high as the data allow.
    """
    if imbalance == BALANCED:
        return np.arange(len(labels))
    counts = np.bincount(labels, minlength=n_classes)
    ranked = rng.permutation(np.flatnonzero(counts))
    shares = imbalance ** (np.arange(len(ranked)) / max(len(ranked) - 1, 1))
    quotas = np.rint((counts[ranked] / shares).min() * shares).astype(np.int64).clip(1, counts[ranked]).tolist()
    kept = [rng.permutation(np.flatnonzero(labels == c))[:n] for c, n in zip(ranked.tolist(), quotas, strict=True)]
    return np.sort(np.concatenate(kept))


def resolve_stream(spec: str, source: DataSource, splits: Path | str | None = None, **options: Any) -> StreamManifest:
    """The stream that a spec names: the path of a manifest (.json), a published one, or one that is made here.

    "official:sym40:1" is published, and read from `splits`. "blurry-10", "blurry-10:sym-40", "disjoint:asym-40" and
    "time" are made with the options of `make_stream`; what the spec says goes before them.
    """
    if is_manifest(spec):
        return StreamManifest.load(spec)
    if is_published(spec):
        from puridiver.streams.published import find_official

        return find_official(spec, source, splits or "")
    tasks, colon, noise = spec.partition(":")
    match = re.fullmatch(r"blurry-?([\d.]+)", tasks)
    allowed = "blurry-10, blurry-10:sym-40, disjoint, time, official:sym40:1, official:sym40:1:listed or a path (.json)"
    fine = match or tasks in ("disjoint", "time")
    require(fine and not noise.startswith(MATRIX_FILE), "a stream", allowed, spec)
    options["kind"] = "blurry" if match else tasks
    if match:
        options["minor_share"] = parse_share(match[1], f"the minor share of {spec!r}")
    if colon:
        options["noise"] = noise
    return make_stream(source, **options)


def verify(manifest: StreamManifest, source: DataSource) -> list[str]:
    """What is wrong with the manifest, one line a problem; empty when all is well.

    It should belong to this data and have the realised noise that the data say. A stream made by seed should come out
    the same when it is made again. `StreamManifest.load` has checked the hash of the file.
    """
    try:
        check_belongs(source, manifest)
    except ManifestError as error:
        return [str(error)]
    problems = []
    measured = realised_noise(manifest.labels, source.train.true_labels.numpy()[manifest.order])
    if measured != manifest.realised_noise:
        problems.append(f"the realised noise should be {manifest.realised_noise}, but is {measured}")
    if manifest.kind not in CUTTERS or noise_kind(manifest.noise).from_file:  # no seed makes these again
        return problems
    try:
        again = rebuild(manifest, source).to_dict()
    except ValueError as error:
        return [*problems, f"the stream cannot be made again from seed {manifest.seed}: {error}"]
    for name, recorded in manifest.to_dict().items():
        if recorded != again.get(name) and name != "source":  # the same data may go by another name
            problems.append(f"making the stream again from seed {manifest.seed} gives another {name}")
    return problems


def rebuild(manifest: StreamManifest, source: DataSource) -> StreamManifest:
    """Make the stream again from the options and the seed that the manifest records."""
    names = ("kind", "n_tasks", "minor_share", "noise_map", "noise_matrix", "imbalance", "seed", "cut_by")
    options = {name: getattr(manifest, name) for name in names}
    return make_stream(source, noise=(manifest.noise, manifest.noise_rate), holdout=len(manifest.holdout), **options)


def write_manifest(
    path: Path | str,
    source: DataSource,
    order: ArrayLike,  # for each arrival, the row of its image among `source.train`; not all need arrive
    labels: ArrayLike | None = None,  # for each arrival, a class name or its number; without it, the data's own
    task_ends: Sequence[int] | None = None,  # for each task, how many samples have arrived; without it, one task
    major_classes: Sequence[Sequence[int]] | None = None,  # for each task; without it, where most of a class arrives
    holdout: ArrayLike = (),  # rows of train images that do not arrive, for `--evaluate-on validation`
) -> StreamManifest:
    """Write the manifest of a stream in an order, and with labels, of one's own, for `puridiver run --stream PATH`."""
    require(is_manifest(str(path)), "a manifest", "called *.json, by which a run knows it", path)
    n_train, ids = len(source.train), {name: label for label, name in enumerate(source.class_names)}
    rows = as_ids("order", order, n_train)
    own = source.train.labels.numpy()[rows]
    found = own.tolist() if labels is None else np.asarray(labels, dtype=object).tolist()  # keeps a NUL at an end
    if any(isinstance(name, str) for name in found):
        unknown = [name for name in found if name not in ids]
        require(not unknown, "labels", f"among the classes {few(ids)}", unknown[:1])
        found = [ids[name] for name in found]
    given = as_ids("labels", found, len(ids))
    require(len(given) == len(rows) > 0, "labels", f"as many as order, {len(rows)}, and not none", len(given))
    ends = as_ids("task_ends", [len(rows)] if task_ends is None else task_ends, len(rows) + 1)
    require((np.diff(ends, prepend=0) > 0).all(), "task_ends", f"rising to {len(rows)}", ends)
    groups = major_classes or fullest_tasks(np.split(given, ends[:-1]), len(ids))
    manifest = StreamManifest.of(
        source, rows, given, kind=CUSTOM, seed=0, n_tasks=len(ends), noise="none" if (given == own).all() else CUSTOM,
        task_ends=tuple(ends.tolist()), major_classes=tuple(map(tuple, groups)),
        holdout=as_ids("holdout", holdout, n_train),
    )  # fmt: skip
    manifest.save(path)
    return manifest

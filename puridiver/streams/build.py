"""Makes a stream from a data source and a seed, and makes it again to verify it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from puridiver.data.base import UNKNOWN, DataSource
from puridiver.errors import ManifestError, few
from puridiver.streams.checks import IntArray, check_choice, parse_share
from puridiver.streams.manifest import BALANCED, CUSTOM, CUTS, StreamManifest, realised_noise
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
from puridiver.streams.noises.matrix import as_matrix, matrix_name, read_matrix
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
    check_choice("kind", kind, CUTTERS)
    check_choice("cut_by", cut_by, CUTS)
    for name, fine, wanted, got in (
        ("seed", seed >= 0, "at least 0", seed),
        ("holdout", 0 <= holdout < len(source.train), f"from 0 to below the {len(source.train)} train images", holdout),
        ("imbalance", 0 < imbalance <= 1, "above 0 and at most 1", imbalance),
    ):
        if not fine:
            raise ValueError(f"{name} should be {wanted}, but got {got}")
    noise_id, rate, class_map, matrix = _read_noise(source, noise, noise_map, noise_matrix)
    n_classes, labels = len(source.class_names), source.train.labels.numpy()
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


def _read_noise(
    source: DataSource, noise: str | tuple[str, float], noise_map: ClassMap | None, noise_matrix: ArrayLike | None
) -> tuple[str, float, ClassMap | None, Matrix | None]:
    """The kind and the rate of a noise, and the class map and the matrix that it uses."""
    n_classes = len(source.class_names)
    if isinstance(noise, str) and noise.startswith(MATRIX_FILE):
        noise, noise_matrix = "matrix", read_matrix(noise.removeprefix(MATRIX_FILE))
    matrix = None if noise_matrix is None else as_matrix(noise_matrix, n_classes)
    if noise == "matrix" and matrix is not None:
        noise = (matrix_name(matrix), 0.0)
    kind, rate = parse_noise(noise) if isinstance(noise, str) else noise
    found = noise_kind(kind)
    found.check(kind, matrix, n_classes)
    if noise_map is not None and not found.uses_map:
        raise ValueError(f"a noise map should go with asymmetric noise, but the noise is {kind!r}")
    class_map = dict(noise_map or source.asymmetric_map or next_class_map(n_classes)) if found.uses_map else None
    check_class_map(class_map or {}, n_classes)
    if kind != "none" and not source.train.truth_known:  # nobody could say how many labels are wrong afterwards
        raise ValueError(
            f"noise {noise_name(kind, rate)} cannot be planted in {source.name!r}, whose true labels are not known: "
            "the noise should be none, or say --trust-labels to take the labels it has for true"
        )
    return kind, rate, class_map, matrix


def draw_holdout(labels: IntArray, n_classes: int, n_held: int, rng: np.random.Generator) -> IntArray:
    """Sorted indices of n_held samples, as many of each class; what is left over to random classes."""
    quota = np.full(n_classes, n_held // n_classes)
    quota[rng.permutation(n_classes)[: n_held % n_classes]] += 1
    counts = np.bincount(labels, minlength=n_classes)
    if (quota > counts).any():
        short = int(np.argmax(quota - counts))
        raise ValueError(
            f"a holdout of {n_held} takes {quota[short]} of class {short}, but it has only {counts[short]}"
        )
    picks = [rng.permutation(np.flatnonzero(labels == c))[: quota[c]] for c in range(n_classes)]
    return np.sort(np.concatenate(picks))


def thinned(labels: IntArray, n_classes: int, imbalance: float, rng: np.random.Generator) -> IntArray:
    """Which samples stay, in their order, so that the rarest class has `imbalance` of the most frequent one's.

    As since Cui et al., "Class-balanced loss" (CVPR 2019), class frequencies fall exponentially by random rank.
    """
    if imbalance == BALANCED:
        return np.arange(len(labels))
    counts = np.bincount(labels, minlength=n_classes)
    ranked = rng.permutation(np.flatnonzero(counts))
    quotas = zip(ranked.tolist(), profile(counts[ranked], imbalance).tolist(), strict=True)
    return np.sort(np.concatenate([rng.permutation(np.flatnonzero(labels == c))[:quota] for c, quota in quotas]))


def profile(counts: IntArray, imbalance: float) -> IntArray:
    """How many samples classes keep that have `counts` of them, the most frequent one first; at least one each.

    Of C classes, rank r keeps n imbalance^(r / (C - 1)) samples; n is as high as the data allow.
    """
    shares = imbalance ** (np.arange(len(counts)) / max(len(counts) - 1, 1))
    top = (counts / shares).min()  # no class may need more than it has
    return np.clip(np.rint(top * shares).astype(np.int64), 1, counts)


# Streams by a short text -------------------------------------------------------------------------------------------


def resolve_stream(spec: str, source: DataSource, splits: Path | str | None = None, **options: Any) -> StreamManifest:
    """The stream that a spec names: the path of a manifest (.json), a published one, or one that is made here.

    "official:sym40:1" is published, and read from `splits`. "blurry-10", "blurry-10:sym-40", "disjoint:asym-40" and
    "time" are made with the options of `make_stream`; what the spec says goes before them.
    """
    if is_manifest(spec):
        return StreamManifest.load(spec)
    if is_published(spec):
        from puridiver.streams.published import find_official

        if splits is None:
            raise ValueError(f"{spec!r} is read from the published split files: say where they lie (splits)")
        return find_official(spec, source, splits)
    tasks, colon, noise = spec.partition(":")
    match = re.fullmatch(r"blurry-?([\d.]+)", tasks)
    if (match is None and tasks not in ("disjoint", "time")) or noise.startswith(MATRIX_FILE):
        raise ValueError(
            'a stream should be "blurry-10", "blurry-10:sym-40", "disjoint", "time", "official:sym40:1", '
            f'"official:sym40:1:listed" or the path of a manifest (.json), but got {spec!r}'
        )
    options["kind"] = "blurry" if match else tasks
    if match:
        options["minor_share"] = parse_share(match[1], f"the minor share of {spec!r}")
    if colon:
        options["noise"] = noise
    return make_stream(source, **options)


# Making a stream again ---------------------------------------------------------------------------------------------


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
    wrong = int((manifest.labels != source.train.labels.numpy()[manifest.order]).sum())
    if manifest.kind == CUSTOM and manifest.noise == "none" and wrong:
        problems.append(f"{wrong} labels are not the data's own, though the noise is none; it should be custom")
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


# Streams of one's own making ---------------------------------------------------------------------------------------


def custom_stream(
    source: DataSource,
    order: ArrayLike,  # for each arrival, the row of its image among `source.train`; not all need arrive
    labels: ArrayLike | None = None,  # for each arrival, a class name or its number; without it, the data's own
    task_ends: Sequence[int] | None = None,  # for each task, how many samples have arrived; without it, one task
    major_classes: Sequence[Sequence[int]] | None = None,  # for each task; without it, where most of a class arrives
    holdout: ArrayLike = (),  # rows of train images that do not arrive, for `--evaluate-on validation`
) -> StreamManifest:
    """A stream in an order, and with labels, of one's own."""
    n_train, ids = len(source.train), {name: label for label, name in enumerate(source.class_names)}
    rows, held = _whole("order", order, n_train), _whole("holdout", holdout, n_train)
    if not len(rows):
        raise ValueError("order should name at least one train image, but is empty")
    own = source.train.labels.numpy()[rows]
    found = own.tolist() if labels is None else np.asarray(labels, dtype=object).tolist()  # keeps a NUL at an end
    if found and isinstance(found[0], str):
        if unknown := [name for name in found if name not in ids]:
            raise ValueError(f"labels should be among the classes {few(ids)}, but got {unknown[0]!r}")
        found = [ids[name] for name in found]
    given = _whole("labels", found, len(ids))
    ends = _whole("task_ends", [len(rows)] if task_ends is None else task_ends, len(rows) + 1)
    if len(given) != len(rows):
        raise ValueError(f"labels should be as many as order, {len(rows)}, but got {len(given)}")
    if not len(ends) or ends[-1] != len(rows) or (np.diff(ends, prepend=0) <= 0).any():
        raise ValueError(f"task_ends should rise from task to task to {len(rows)}, but got {ends.tolist()}")
    if major_classes is None:
        groups = fullest_tasks(np.split(given, ends[:-1]), len(ids))
    else:
        groups = [tuple(_whole("major_classes", group, len(ids)).tolist()) for group in major_classes]
    return StreamManifest.of(
        source, rows, given, kind=CUSTOM, seed=0, n_tasks=len(ends), noise="none" if (given == own).all() else CUSTOM,
        task_ends=tuple(ends.tolist()), major_classes=tuple(groups), holdout=held,
    )  # fmt: skip


def write_manifest(
    path: Path | str, source: DataSource, order: ArrayLike, labels: ArrayLike | None = None, **options: Any
) -> StreamManifest:
    """Write the manifest of a `custom_stream`, which takes the same arguments, for `puridiver run --stream PATH`."""
    if Path(path).suffix != ".json":
        raise ValueError(f"a manifest should be called *.json, by which a run knows it, but got {str(path)!r}")
    manifest = custom_stream(source, order, labels, **options)
    manifest.save(path)
    return manifest


def _whole(what: str, values: ArrayLike, limit: int) -> IntArray:
    """The values as int64 of shape (N,), after checking that they lie in 0 .. limit - 1."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"{what} should be whole numbers of shape (N,), but got {array.dtype} of shape {array.shape}")
    if array.size and not 0 <= array.min() <= array.max() < limit:
        raise ValueError(f"{what} should lie in 0 to {limit - 1}, but got {array.min()} to {array.max()}")
    return array.astype(np.int64)

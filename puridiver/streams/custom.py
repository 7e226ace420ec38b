"""Streams of one's own making: an order and labels as they are given, from which no seed could make them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from puridiver.data.base import DataSource
from puridiver.errors import few
from puridiver.streams.build import realised_noise
from puridiver.streams.checks import IntArray, as_labels
from puridiver.streams.manifest import CUSTOM, StreamManifest, source_fields
from puridiver.streams.tasks import fullest_tasks


def custom_stream(
    source: DataSource,
    order: ArrayLike,
    labels: ArrayLike | None = None,
    task_ends: Sequence[int] | None = None,
    major_classes: Sequence[Sequence[int]] | None = None,
    holdout: ArrayLike = (),
) -> StreamManifest:
    """A stream in an order, and with labels, of one's own.

    Parameters
    ----------
    order
        For each arrival, the row of its image among `source.train`; each at most once, and not all need arrive.
    labels
        For each arrival, the label that the learner is given: a class name or its number. Without it, the data's own.
    task_ends
        For each task, how many samples have arrived when it ends; without it, all is one task.
    major_classes
        For each task, the numbers of the classes that forgetting counts as its own; without it, each class is of the
        task in which most of it arrives.
    holdout
        Rows of train images that do not arrive, for `--evaluate-on validation`.
    """
    rows, held = _as_whole("order", order), _as_whole("holdout", holdout)
    for what, found in (("order", rows), ("holdout", held)):
        if len(found) and not 0 <= found.min() <= found.max() < len(source.train):
            allowed = f"rows from 0 to {len(source.train) - 1}, the train images of {source.name!r}"
            raise ValueError(f"{what} should hold {allowed}, but got {found.min()} to {found.max()}")
    if not len(rows):
        raise ValueError("order should name at least one train image, but is empty")
    own = source.train.labels.numpy()[rows]
    given = own if labels is None else _as_class_ids(labels, len(rows), source.class_names)
    ends = _as_ends(task_ends, len(rows))
    if major_classes is None:
        groups = fullest_tasks(np.split(given, ends[:-1]), len(source.class_names))
    else:
        groups = [tuple(_as_whole("major_classes, for each task,", group).tolist()) for group in major_classes]
    return StreamManifest(
        **source_fields(source), kind=CUSTOM, seed=0, n_tasks=len(ends), minor_share=0.0, cut_by="given",
        noise="none" if np.array_equal(given, own) else CUSTOM, noise_rate=0.0, noise_map=None,
        realised_noise=realised_noise(given, source.train.true_labels.numpy()[rows]), task_ends=ends,
        major_classes=tuple(groups), holdout=held, order=rows, labels=given,
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


def _as_class_ids(labels: ArrayLike, count: int, class_names: Sequence[str]) -> IntArray:
    array = np.asarray(labels, dtype=object)  # of text NumPy's own type would drop a NUL at the end
    if array.shape != (count,):
        raise ValueError(f"labels should be as many as order, {count}, but have the shape {array.shape}")
    found = array.tolist()
    if not all(isinstance(label, str) for label in found):
        return as_labels(np.asarray(found), len(class_names))
    if unknown := sorted(set(found) - set(class_names)):
        raise ValueError(f"labels should be among the classes {few(class_names)}, but got {unknown[0]!r}")
    numbers = {name: number for number, name in enumerate(class_names)}
    return np.array([numbers[name] for name in found], dtype=np.int64)


def _as_ends(task_ends: Sequence[int] | None, count: int) -> tuple[int, ...]:
    ends = [count] if task_ends is None else _as_whole("task_ends", task_ends).tolist()
    if not ends or ends[-1] != count or any(b <= a for a, b in zip([0, *ends], ends, strict=False)):
        raise ValueError(
            f"task_ends should rise from task to task to {count}, the number of arrivals, with none in between twice, "
            f"but got {ends}"
        )
    return tuple(ends)


def _as_whole(what: str, values: ArrayLike) -> IntArray:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and (array.dtype.kind not in "iu" or array.max() > 2**62)):
        raise ValueError(f"{what} should be whole numbers of shape (N,), but got {array.dtype} of shape {array.shape}")
    return array.astype(np.int64)

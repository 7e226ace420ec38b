"""Disjoint tasks, SPR's protocol: each class arrives in one task and nowhere else."""

from __future__ import annotations

import numpy as np

from puridiver.streams.checks import IntArray, as_labels
from puridiver.streams.tasks import Tasks, random_groups


def disjoint_tasks(
    labels: IntArray,
    n_classes: int,
    n_tasks: int,
    rng: np.random.Generator,
    classes_per_task: int | None = None,
) -> Tasks:
    """Cut samples into tasks of random class groups by the labels that are passed (given or true).

    Parameters
    ----------
    classes_per_task
        None shares all classes out, those left over to the last task. A number takes that many for each task
        from the largest classes only (SPR's WebVision: 7 tasks of 2); samples of the others do not arrive.
    """
    labels = as_labels(labels, n_classes)
    classes = np.arange(n_classes)
    if classes_per_task is not None:
        classes = _largest_classes(labels, n_classes, n_tasks * classes_per_task)
    groups = random_groups(classes, n_tasks, rng)
    indices = [rng.permutation(np.flatnonzero(np.isin(labels, group))) for group in groups]
    return Tasks(indices, groups)


def _largest_classes(labels: IntArray, n_classes: int, n_wanted: int) -> IntArray:
    if not 1 <= n_wanted <= n_classes:
        raise ValueError(
            f"tasks times classes per task should be from 1 to the number of classes, {n_classes}, but got {n_wanted}"
        )
    counts = np.bincount(labels, minlength=n_classes)
    return np.sort(np.argsort(-counts, kind="stable")[:n_wanted])

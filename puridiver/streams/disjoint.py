"""Disjoint tasks, SPR's protocol: each class arrives in one task and nowhere else."""

from __future__ import annotations

import numpy as np

from puridiver.streams.checks import IntArray, as_labels
from puridiver.streams.tasks import Tasks, random_groups


def disjoint_tasks(
    labels: IntArray, n_classes: int, n_tasks: int, rng: np.random.Generator, rest_to_last: bool = False
) -> Tasks:
    """Cut samples into tasks of random class groups (`random_groups`) by the labels that are passed (given or true)."""
    labels = as_labels(labels, n_classes)
    groups = random_groups(np.arange(n_classes), n_tasks, rng, rest_to_last)
    indices = [rng.permutation(np.flatnonzero(np.isin(labels, group))) for group in groups]
    return Tasks(indices, groups)

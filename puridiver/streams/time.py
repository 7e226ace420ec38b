"""Tasks in the order of time: what arrived first comes first, as it did where the data were collected."""

from __future__ import annotations

import numpy as np

from puridiver.streams.checks import IntArray, as_labels
from puridiver.streams.tasks import Tasks, fullest_tasks


def time_tasks(labels: IntArray, n_classes: int, n_tasks: int, times: np.ndarray | None) -> Tasks:
    """Cut the order of time into `n_tasks` parts of equal size, to within one sample; equal times keep their order.

    A class counts as major in the task in which most of it arrives, the earliest of several.
    """
    labels = as_labels(labels, n_classes)
    if times is None:
        raise ValueError("a stream in the order of time needs timestamps, but the data have none (column timestamp)")
    if not 1 <= n_tasks <= len(labels):
        raise ValueError(f"the number of tasks should be from 1 to that of samples, {len(labels)}, but got {n_tasks}")
    indices = np.array_split(np.argsort(times, kind="stable"), n_tasks)
    return Tasks(list(indices), fullest_tasks([labels[part] for part in indices], n_classes))

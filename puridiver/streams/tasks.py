"""What a cut of a data set into tasks is, and how classes are grouped for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from puridiver.streams.checks import IntArray


class TooUnequalError(ValueError):
    """The classes have too unequal numbers of samples, perhaps none, for the tasks that are wanted."""


@dataclass(frozen=True)
class Tasks:
    """Sample indices of each task in arrival order, and the classes that are major in it."""

    indices: list[IntArray]
    major_classes: list[tuple[int, ...]]

    @property
    def order(self) -> IntArray:
        """All indices, in arrival order."""
        return np.concatenate(self.indices)

    @property
    def ends(self) -> tuple[int, ...]:
        """For each task, how many samples have arrived when it ends."""
        return tuple(np.cumsum([len(part) for part in self.indices]).tolist())


def group_classes(class_order: Sequence[int], n_tasks: int, rest_to_last: bool = False) -> list[tuple[int, ...]]:
    """Cut the classes into n_tasks groups, equal or one larger, the last ones (the fifth has 21 of Food-101N's 101).

    With `rest_to_last` all that are left over are the last group's, as in published files and in older manifests.
    """
    if not 1 <= n_tasks <= len(class_order):
        raise ValueError(
            f"the number of tasks should be from 1 to that of classes, {len(class_order)}, but got {n_tasks}"
        )
    size, left_over = divmod(len(class_order), n_tasks)
    larger = 0 if rest_to_last else left_over
    starts = [task * size + max(0, task - (n_tasks - larger)) for task in range(n_tasks)]
    ends = [*starts[1:], len(class_order)]
    return [tuple(int(c) for c in class_order[a:b]) for a, b in zip(starts, ends, strict=True)]


def fullest_tasks(labels: Sequence[IntArray], n_classes: int) -> list[tuple[int, ...]]:
    """For each task, by the labels of each, the classes of which most arrive in it, the earliest of several."""
    counts = np.stack([np.bincount(part, minlength=n_classes) for part in labels])  # (tasks, classes)
    fullest, there = counts.argmax(axis=0), counts.any(axis=0)
    return [tuple(np.flatnonzero((fullest == task) & there).tolist()) for task in range(len(labels))]


def random_groups(
    classes: int | IntArray, n_tasks: int, rng: np.random.Generator, rest_to_last: bool = False
) -> list[tuple[int, ...]]:
    """Group the classes (ids, or how many there are) in random order."""
    return group_classes(rng.permutation(classes).tolist(), n_tasks, rest_to_last)

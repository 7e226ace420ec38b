"""Tasks: which samples arrive together, and which classes are major in each task.

Blurry (section 3, Eq. 1 of the paper), disjoint (SPR's protocol) and in the order of time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from puridiver.streams.checks import IntArray, as_labels, check_share


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


@dataclass(frozen=True)
class Cut:
    """What a cutter of tasks may use."""

    labels: IntArray
    n_classes: int
    n_tasks: int
    minor_share: float
    times: np.ndarray | None  # of each sample
    rng: np.random.Generator


def group_classes(class_order: Sequence[int], n_tasks: int, rest_to_last: bool = False) -> list[tuple[int, ...]]:
    """Cut the classes into n_tasks groups of equal size; of what is left over the last groups get one class each.

    With `rest_to_last` the last group gets all that is left over, as in the published files.
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


def blurry_tasks(
    given_labels: IntArray, n_classes: int, n_tasks: int, minor_share: float, rng: np.random.Generator
) -> Tasks:
    """Eq. 1: cut samples into blurry-L tasks by their given labels; L is `minor_share`.

    Each class is major in one task and minor in all others. In every task the samples of minor classes are
    the share L of all, to within one sample; every sample arrives exactly once.
    """
    from puridiver.streams.flows import plan_flows

    labels = as_labels(given_labels, n_classes)
    check_share("minor share", minor_share)
    if n_tasks == 1 and minor_share > 0:
        raise ValueError(f"a single task has no minor classes: its minor share should be 0, but got {minor_share}")
    groups = group_classes(rng.permutation(n_classes).tolist(), n_tasks)
    pools = [[rng.permutation(np.flatnonzero(labels == c)) for c in group] for group in groups]
    sizes = np.array([sum(map(len, pool)) for pool in pools])
    flows = plan_flows(sizes, np.array([len(group) for group in groups]), minor_share)
    parts: list[list[IntArray]] = [[] for _ in groups]
    for task, pool in enumerate(pools):
        # The same share of each class leaves; both parts are sorted by class.
        quota = largest_remainder(np.array([len(samples) for samples in pool]), int(flows[task].sum()))
        leaving = np.concatenate([samples[:n] for samples, n in zip(pool, quota, strict=True)])
        parts[task].append(np.concatenate([samples[n:] for samples, n in zip(pool, quota, strict=True)]))
        destinations = deal(flows[task])
        for other, part in enumerate(parts):
            part.append(leaving[destinations == other])
    return Tasks([rng.permutation(np.concatenate(part)) for part in parts], groups)


def largest_remainder(weights: IntArray, total: int) -> IntArray:
    """Whole numbers in proportion to the weights, with this total: down, then up at the largest rests."""
    if total == 0:
        return np.zeros(len(weights), dtype=np.int64)
    # In whole numbers throughout, so that equal remainders tie exactly (and the earlier class wins).
    shares, remainders = np.divmod(weights * total, weights.sum())
    up = np.argsort(-remainders, kind="stable")[: total - shares.sum()]
    shares[up] += 1
    return shares


def deal(counts: IntArray) -> IntArray:
    """A sequence with `counts[t]` copies of each t in which every stretch holds each t in nearly its share.

    The j-th copy of t sorts at (j + 0.5) / counts[t]. A class that owns a stretch of the sequence is thereby
    spread evenly over the tasks.
    """
    labels = np.repeat(np.arange(len(counts)), counts)
    keys = np.concatenate([(np.arange(n) + 0.5) / n for n in counts.tolist() if n] or [np.empty(0)])
    return labels[np.argsort(keys, kind="stable")]


def disjoint_tasks(labels: IntArray, n_classes: int, n_tasks: int, rng: np.random.Generator) -> Tasks:
    """Cut samples into tasks of random class groups: each class arrives in one task and nowhere else."""
    labels = as_labels(labels, n_classes)
    groups = group_classes(rng.permutation(np.arange(n_classes)).tolist(), n_tasks)
    return Tasks([rng.permutation(np.flatnonzero(np.isin(labels, group))) for group in groups], groups)


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


CUTTERS: dict[str, Callable[[Cut], Tasks]] = {
    "blurry": lambda cut: blurry_tasks(cut.labels, cut.n_classes, cut.n_tasks, cut.minor_share, cut.rng),
    "disjoint": lambda cut: disjoint_tasks(cut.labels, cut.n_classes, cut.n_tasks, cut.rng),
    "time": lambda cut: time_tasks(cut.labels, cut.n_classes, cut.n_tasks, cut.times),
}

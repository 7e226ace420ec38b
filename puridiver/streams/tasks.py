"""Tasks: which samples arrive together, and which classes are major in each task.

Blurry (section 3, Eq. 1 of the paper), disjoint (SPR's protocol), both together (i-Blurry) and in the order of time.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from puridiver.streams.checks import IntArray, require


class Tasks(NamedTuple):
    """Sample indices of each task in arrival order, and the classes that are major in it."""

    indices: list[IntArray]
    major_classes: list[tuple[int, ...]]


def blurry_tasks(
    labels: IntArray, n_classes: int, n_tasks: int, rng: np.random.Generator, minor_share: float, *_: object
) -> Tasks:
    """Eq. 1: cut samples into blurry-L tasks by their given labels; L is `minor_share`.

    Each class is major in one task and minor in all others. In every task the samples of minor classes are the share
    L of all, but for rounding. Every sample arrives exactly once.
    """
    require(0 <= minor_share < 1, "minor_share", "at least 0 and below 1", minor_share)
    groups = group_classes(rng.permutation(n_classes).tolist(), n_tasks)
    pools = [[rng.permutation(np.flatnonzero(labels == c)) for c in group] for group in groups]
    flows = plan_flows(np.array([sum(map(len, pool)) for pool in pools]), minor_share)
    parts: list[list[IntArray]] = [[] for _ in groups]
    for task, pool in enumerate(pools):
        # The same share of each class leaves; both parts are sorted by class.
        quota = largest_remainder(np.array([len(samples) for samples in pool]), int(flows[task].sum()))
        leaving = np.concatenate([samples[:n] for samples, n in zip(pool, quota, strict=True)])
        parts[task].append(np.concatenate([samples[n:] for samples, n in zip(pool, quota, strict=True)]))
        destinations = deal(flows[task])[: len(leaving)]
        for other, part in enumerate(parts):
            part.append(leaving[destinations == other])
    return Tasks([rng.permutation(np.concatenate(part)) for part in parts], groups)


def plan_flows(sizes: IntArray, minor_share: float) -> IntArray:
    """How many samples that are major in task s arrive in task t; (T, T), zero diagonal.

    Each task draws from all others in proportion to their `sizes`: F[s, t] = sizes[s] c[t]. The minor share L fixes c:
    what t receives, c[t] (S - sizes[t]), is L / (1 - L) of what it keeps, sizes[t] (1 - sum(c) + c[t]).
    """
    if minor_share == 0:
        return np.zeros((len(sizes), len(sizes)), dtype=np.int64)
    room = sizes.sum() - sizes / (1 - minor_share)
    if room.min() <= 0:
        unequal = f"the classes are too unequal, {sizes.tolist()} samples a task: try a smaller share or another seed"
        raise ValueError(f"no tasks with a minor share of {minor_share:g} exist here: {unequal}")
    drawn = minor_share / (1 - minor_share) * sizes / room
    flows = np.outer(sizes, drawn / (1 + drawn.sum())) * (1 - np.eye(len(sizes)))
    # Running sums of each column are rounded up: what a task receives stays within one sample of exact. Each column
    # begins at another task, so that not always the same one gives more.
    tasks = np.arange(len(sizes))
    rows, whole = (tasks + 1 + tasks[:, None]) % len(sizes), np.zeros(flows.shape, dtype=np.int64)
    sums = np.take_along_axis(flows, rows, axis=0).cumsum(axis=0)
    np.put_along_axis(whole, rows, np.diff(np.ceil(sums.round(6)), axis=0, prepend=0).astype(np.int64), axis=0)
    return whole


def largest_remainder(weights: IntArray, total: int) -> IntArray:
    """Whole numbers in proportion to the weights, with this total: down, then up at the largest rests."""
    # In whole numbers throughout, so that equal remainders tie exactly (and the earlier class wins).
    shares, remainders = np.divmod(weights * total, max(weights.sum(), 1))
    shares[np.argsort(-remainders, kind="stable")[: total - shares.sum()]] += 1
    return shares


def deal(counts: IntArray) -> IntArray:
    """A sequence with `counts[t]` copies of each t in which every stretch holds each t in nearly its share."""
    labels = np.repeat(np.arange(len(counts)), counts)
    copies = np.arange(len(labels)) - np.repeat(counts.cumsum() - counts, counts)  # from 0 for each t
    # The j-th copy of t sorts at (j + 0.5) / counts[t].
    return labels[np.argsort((copies + 0.5) / counts[labels], kind="stable")]


def disjoint_tasks(labels: IntArray, n_classes: int, n_tasks: int, rng: np.random.Generator, *_: object) -> Tasks:
    """Cut samples into tasks of random class groups: each class arrives in one task and nowhere else."""
    groups = group_classes(rng.permutation(n_classes).tolist(), n_tasks)
    return Tasks([rng.permutation(np.flatnonzero(np.isin(labels, group))) for group in groups], groups)


def i_blurry_tasks(
    labels: IntArray, n_classes: int, n_tasks: int, rng: np.random.Generator, minor_share: float, times: object,
    disjoint_share: float,
) -> Tasks:  # fmt: skip
    """i-Blurry-N-M (Koh et al., ICLR 2022): the share N of the classes is disjoint, the others are blurry with M minor.

    Each task has new disjoint classes, major blurry ones, and minor samples of the other blurry ones.
    """
    require(0 <= disjoint_share <= 1, "disjoint_share", "from 0 to 1", disjoint_share)
    order, n_disjoint = rng.permutation(n_classes), round(disjoint_share * n_classes)
    parts = []
    for cut, classes in ((disjoint_tasks, np.sort(order[:n_disjoint])), (blurry_tasks, np.sort(order[n_disjoint:]))):
        if len(classes):
            rows = np.flatnonzero(np.isin(labels, classes))
            found = cut(np.searchsorted(classes, labels[rows]), len(classes), n_tasks, rng, minor_share)
            groups = [tuple(classes[list(group)].tolist()) for group in found.major_classes]
            parts.append(([rows[indices] for indices in found.indices], groups))
    indices = [rng.permutation(np.concatenate(task)) for task in zip(*(part[0] for part in parts), strict=True)]
    return Tasks(indices, [sum(groups, ()) for groups in zip(*(part[1] for part in parts), strict=True)])


def time_tasks(
    labels: IntArray, n_classes: int, n_tasks: int, rng: object, minor_share: float, times: np.ndarray | None,
    *_: object,
) -> Tasks:  # fmt: skip
    """Cut the order of time into `n_tasks` parts of equal size, to within one sample; equal times keep their order."""
    if times is None:
        where = "a table's column timestamp, or an .npz file's array train_times"
        raise ValueError(f"a stream in the order of time needs timestamps, but the data have none ({where})")
    require(1 <= n_tasks <= len(labels), "tasks", f"from 1 to that of samples, {len(labels)}", n_tasks)
    indices = np.array_split(np.argsort(times, kind="stable"), n_tasks)
    return Tasks(indices, fullest_tasks([labels[part] for part in indices], n_classes))


CUTTERS: dict[str, Callable[..., Tasks]] = {
    "blurry": blurry_tasks, "disjoint": disjoint_tasks, "i-blurry": i_blurry_tasks, "time": time_tasks,
}  # fmt: skip
BLURRY = ("blurry", "i-blurry")  # the kinds that have a minor share


def group_classes(class_order: Sequence[int], n_tasks: int, rest_to_last: bool = False) -> list[tuple[int, ...]]:
    """Cut the classes into n_tasks groups of equal size; of what is left over the last groups get one class each.

    With `rest_to_last` the last group gets all that is left over, as in the published files.
    """
    n_classes = len(class_order)
    require(1 <= n_tasks <= n_classes, "tasks", f"from 1 to that of classes with samples, {n_classes}", n_tasks)
    size, left_over = divmod(n_classes, n_tasks)
    starts = size * np.arange(1, n_tasks)
    if not rest_to_last:
        starts += np.maximum(np.arange(1, n_tasks) - (n_tasks - left_over), 0)
    return [tuple(group.tolist()) for group in np.split(np.asarray(class_order), starts)]


def fullest_tasks(labels: Sequence[IntArray], n_classes: int) -> list[tuple[int, ...]]:
    """For each task, by the labels of each, the classes of which most arrive in it, the earliest of several."""
    counts = np.stack([np.bincount(part, minlength=n_classes) for part in labels])  # (tasks, classes)
    fullest, there = counts.argmax(axis=0), counts.any(axis=0)
    return [tuple(np.flatnonzero((fullest == task) & there).tolist()) for task in range(len(labels))]

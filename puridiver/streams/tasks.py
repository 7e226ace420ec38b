"""Tasks: which samples arrive together, and which classes are major in each task.

Blurry (section 3, Eq. 1 of the paper), disjoint (SPR's protocol) and in the order of time.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from puridiver.streams.checks import IntArray, require

NEARLY_WHOLE = 1e-6  # solvers return whole numbers only nearly; a cell this close to one counts as that number
LEAST_PER_CLASS = 2  # samples of each class that should reach each other task, so that all see all classes (Eq. 1)


class Tasks(NamedTuple):
    """Sample indices of each task in arrival order, and the classes that are major in it."""

    indices: list[IntArray]
    major_classes: list[tuple[int, ...]]


def cut_tasks(
    kind: str, labels: IntArray, n_tasks: int, rng: np.random.Generator, minor_share: float, times: np.ndarray | None
) -> Tasks:
    """Cut samples into tasks, by the classes that occur."""
    there, numbers = np.unique(labels, return_inverse=True)
    tasks = CUTTERS[kind](numbers, len(there), n_tasks, rng, minor_share, times)
    return Tasks(tasks.indices, [tuple(there[list(group)].tolist()) for group in tasks.major_classes])


def blurry_tasks(
    labels: IntArray, n_classes: int, n_tasks: int, rng: np.random.Generator, minor_share: float, *_: object
) -> Tasks:
    """Eq. 1: cut samples into blurry-L tasks by their given labels; L is `minor_share`.

    Each class is major in one task and minor in all others. In every task the samples of minor classes are
    the share L of all, to within one sample; every sample arrives exactly once.
    """
    require(0 <= minor_share < 1, "minor_share", "at least 0 and below 1", minor_share)
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


def disjoint_tasks(labels: IntArray, n_classes: int, n_tasks: int, rng: np.random.Generator, *_: object) -> Tasks:
    """Cut samples into tasks of random class groups: each class arrives in one task and nowhere else."""
    groups = group_classes(rng.permutation(n_classes).tolist(), n_tasks)
    return Tasks([rng.permutation(np.flatnonzero(np.isin(labels, group))) for group in groups], groups)


def time_tasks(
    labels: IntArray, n_classes: int, n_tasks: int, rng: object, minor_share: float, times: np.ndarray | None
) -> Tasks:
    """Cut the order of time into `n_tasks` parts of equal size, to within one sample; equal times keep their order."""
    if times is None:
        raise ValueError("a stream in the order of time needs timestamps, but the data have none (column timestamp)")
    require(1 <= n_tasks <= len(labels), "tasks", f"from 1 to that of samples, {len(labels)}", n_tasks)
    indices = np.array_split(np.argsort(times, kind="stable"), n_tasks)
    return Tasks(indices, fullest_tasks([labels[part] for part in indices], n_classes))


CUTTERS: dict[str, Callable[..., Tasks]] = {"blurry": blurry_tasks, "disjoint": disjoint_tasks, "time": time_tasks}


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


def largest_remainder(weights: IntArray, total: int) -> IntArray:
    """Whole numbers in proportion to the weights, with this total: down, then up at the largest rests."""
    # In whole numbers throughout, so that equal remainders tie exactly (and the earlier class wins).
    shares, remainders = np.divmod(weights * total, max(weights.sum(), 1))
    shares[np.argsort(-remainders, kind="stable")[: total - shares.sum()]] += 1
    return shares


def deal(counts: IntArray) -> IntArray:
    """A sequence with `counts[t]` copies of each t in which every stretch holds each t in nearly its share."""
    labels = np.repeat(np.arange(len(counts)), counts)
    # The j-th copy of t sorts at (j + 0.5) / counts[t].
    keys = np.concatenate([(np.arange(n) + 0.5) / max(n, 1) for n in counts.tolist()])
    return labels[np.argsort(keys, kind="stable")]


# Flows between tasks, in whole numbers and with exact sums -----------------------------------------------------------


def plan_flows(sizes: IntArray, classes: IntArray, minor_share: float) -> IntArray:
    """Whole numbers F[s, t]: samples that are major in task s and arrive in task t; (T, T), zero diagonal.

    `sizes` and `classes` are the numbers of samples and of classes that are major in each task. The minor share of each
    task is `minor_share` to within one sample. Sizes of tasks change as little as they can, where it can be not at all.
    """
    # Enough samples for each class of a task, but not more than half of its proportional share; (T, T).
    least = minor_share * np.outer(sizes, sizes) / max(sizes.sum(), 1)
    least = np.minimum(least / 2, LEAST_PER_CLASS * classes[:, None]) * (1 - np.eye(len(sizes)))
    moved = np.rint(minor_share * sizes).astype(np.int64)
    flows = spread_flows(moved, moved) if 2 * moved.max() <= moved.sum() else None
    if flows is not None and (flows >= np.floor(least)).all():
        return flows
    margins = _changed_margins(sizes, minor_share, least)
    if margins is None and flows is not None:
        return flows
    margins = margins or _changed_margins(sizes, minor_share, np.zeros_like(least))
    if margins is None:
        unequal = f"the classes are too unequal, {sizes.tolist()} samples a task: try a smaller share or another seed"
        raise ValueError(f"no tasks with a minor share of {minor_share:g} exist here: {unequal}")
    return spread_flows(*margins)


def spread_flows(leaving: IntArray, arriving: IntArray) -> IntArray:
    """Whole flows with these row sums and column sums, as even as iterative proportional fitting makes them."""
    table = np.outer(leaving, arriving) * (1.0 - np.eye(len(leaving)))
    for _ in range(1000):
        for axis, wanted in ((0, arriving), (1, leaving[:, None])):
            sums = table.sum(axis, keepdims=True)
            table *= wanted / np.where(sums > 0, sums, np.inf)
        if np.abs(table.sum(0) - arriving).max() < NEARLY_WHOLE / len(leaving):
            break
    # Where the fit has not converged (it is slow at the edge of the feasible), cells may move further to fit.
    for slack in (0, *(2**power for power in range(32))):
        if (flows := _round_table(table, leaving, arriving, slack)) is not None:
            return flows
    raise ValueError(f"no flows between different tasks have row sums {leaving} and column sums {arriving}")


def _round_table(table: np.ndarray, rows: IntArray, columns: IntArray, slack: int = 0) -> IntArray | None:
    """Controlled rounding: each cell down or up (or `slack` further), with exactly these row and column sums.

    Zero cells stay zero. None where no such rounding exists.
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_flow

    near = np.rint(table)
    table = np.where(np.abs(table - near) < NEARLY_WHOLE, near, table)
    low = np.maximum(np.floor(table) - slack, 0).astype(np.int64)
    high = np.where(table > 0, np.ceil(table) + slack, 0).astype(np.int64)
    supply, demand = rows - low.sum(1), columns - low.sum(0)
    if supply.min() < 0 or demand.min() < 0 or supply.sum() != demand.sum():
        return None
    # A flow from a source (first node) through rows and columns to a sink (last node) uses up supply and demand.
    graph = np.zeros((len(rows) + len(columns) + 2,) * 2, dtype=np.int32)
    from_rows, to_columns = slice(1, len(rows) + 1), slice(len(rows) + 1, -1)
    graph[0, from_rows] = supply
    graph[from_rows, to_columns] = np.minimum(high - low, supply[:, None])
    graph[to_columns, -1] = demand
    result = maximum_flow(csr_matrix(graph), 0, len(graph) - 1)
    return low + result.flow.toarray()[from_rows, to_columns] if result.flow_value == supply.sum() else None


def _changed_margins(sizes: IntArray, minor_share: float, least: np.ndarray) -> tuple[IntArray, IntArray] | None:
    """How many samples leave and reach each task where sizes must change; None where no flows >= least do it.

    A linear programme finds kept counts a and flows F: a + row sums of F = sizes; column sums of F = L / (1 - L) a.
    It makes the largest relative change of a from (1 - L) sizes small, so that no task vanishes, then the sum of all
    changes. What a task keeps and receives is rounded together, so the minor share stays within one sample of exact.
    """
    from scipy.optimize import linprog

    n = len(sizes)
    eye, zero, column, no_flow = np.eye(n), np.zeros((n, n)), np.zeros((n, 1)), np.zeros((n, n * n))
    sum_rows, sum_columns = np.kron(eye, np.ones(n)), np.kron(np.ones(n), eye)  # (T, T*T), F flattened by rows
    ratio, target = minor_share / (1 - minor_share), (1 - minor_share) * sizes
    no_loops = [(low, 0 if k % (n + 1) == 0 else None) for k, low in enumerate(least.ravel().tolist())]
    changes: list[list[np.ndarray]] = [
        [eye, no_flow, -eye, column],
        [-eye, no_flow, -eye, column],
        [zero, no_flow, eye, -target[:, None]],
    ]
    solution = linprog(
        # The unknowns: a, F, the changes |a - target|, and the largest relative change.
        np.concatenate([np.zeros(n + n * n), np.ones(n), [sizes.sum()]]),
        A_eq=np.block([[eye, sum_rows, zero, column], [-ratio * eye, sum_columns, zero, column]]),
        b_eq=np.concatenate([sizes, np.zeros(n)]),
        A_ub=np.block(changes),
        b_ub=np.concatenate([target, -target, np.zeros(n)]),
        bounds=[(0, None)] * n + no_loops + [(0, None)] * (n + 1),
    )
    if not solution.success:
        return None
    table = np.hstack([solution.x[n : n + n * n].reshape(n, n), np.diag(solution.x[:n])])  # (T, 2T): sums are the sizes
    columns = np.ceil(table.sum(0) - NEARLY_WHOLE)
    # A row of what each column lacks to a whole number makes every sum whole, as controlled rounding needs.
    table = np.vstack([table, np.maximum(columns - table.sum(0), 0)])
    rows = np.append(sizes, columns.sum() - sizes.sum())
    whole = _round_table(table, rows.astype(np.int64), columns.astype(np.int64))
    assert whole is not None, "a table with whole sums always has a controlled rounding"
    return whole[:-1, :n].sum(1), whole[:-1, :n].sum(0)

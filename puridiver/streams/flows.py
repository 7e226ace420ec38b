"""How many samples each task lends to each other one, in whole numbers and with exact sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_flow

from puridiver.streams.checks import IntArray
from puridiver.streams.tasks import TooUnequalError

FloatArray = NDArray[np.float64]

# Solvers return whole numbers only nearly; a cell this close to one counts as that number.
NEARLY_WHOLE = 1e-6

# How many samples of each class should reach each other task, so that all tasks see all classes (Eq. 1).
# Without it a task as large as all others together would take and give everything that moves.
LEAST_PER_CLASS = 2


def plan_flows(sizes: IntArray, classes: IntArray, minor_share: float) -> IntArray:
    """Whole numbers F[s, t]: samples that are major in task s and arrive in task t; (T, T), zero diagonal.

    `sizes` and `classes` are the numbers of samples and of classes that are major in each task. Task t keeps
    sizes[t] - F[t].sum() of its own and receives F[:, t].sum() minor ones, so that the minor share of each
    task is `minor_share` to within one sample. Where it can be, no task changes its size; where one task is
    as large as all others together, or larger, sizes change as little as they can.
    """
    least = _least_flows(sizes, classes, minor_share)
    moved = np.rint(minor_share * sizes).astype(np.int64)
    sizes_can_stay = 2 * moved.max() <= moved.sum()
    if sizes_can_stay:
        flows = spread_flows(moved, moved)
        if (flows >= np.floor(least)).all():
            return flows
    solution = _solve_kept(sizes, minor_share, least)
    if solution is None and sizes_can_stay:
        return flows
    solution = solution or _solve_kept(sizes, minor_share, np.zeros_like(least))
    if solution is None:
        raise TooUnequalError(
            f"no tasks with a minor share of {minor_share:g} exist here: the numbers of samples that are "
            f"major in each task, {sizes.tolist()}, are too unequal. Try a smaller share or another seed"
        )
    return spread_flows(*_whole_margins(sizes, *solution))


def _least_flows(sizes: IntArray, classes: IntArray, minor_share: float) -> FloatArray:
    """Enough samples for each class of a task, but not more than half of its proportional share; (T, T)."""
    proportional = minor_share * np.outer(sizes, sizes) / max(sizes.sum(), 1)
    least = np.minimum(proportional / 2, LEAST_PER_CLASS * classes[:, None])
    np.fill_diagonal(least, 0.0)
    return least


def spread_flows(leaving: IntArray, arriving: IntArray) -> IntArray:
    """Whole flows with these row sums and column sums, as even as proportional fitting makes them."""
    table = _proportional_fit(leaving, arriving)
    # Where the fit has not converged (it is slow at the edge of the feasible), cells may move further to fit.
    for slack in (0, *(2**power for power in range(32))):
        flows = _round_table(table, leaving, arriving, slack)
        if flows is not None:
            return flows
    raise ValueError(f"no flows between different tasks have row sums {leaving} and column sums {arriving}")


def _proportional_fit(rows: IntArray, columns: IntArray, rounds: int = 1000) -> FloatArray:
    """Iterative proportional fitting from the outer product without its diagonal."""
    table = np.outer(rows, columns).astype(np.float64)
    np.fill_diagonal(table, 0.0)
    for _ in range(rounds):
        for wanted, axis in ((columns[None, :], 0), (rows[:, None], 1)):
            have = table.sum(axis, keepdims=True)
            table *= np.divide(wanted, have, out=np.zeros_like(have), where=have > 0)
        if np.abs(table.sum(0) - columns).max() < NEARLY_WHOLE / len(rows):
            break
    return table


def _round_table(table: FloatArray, rows: IntArray, columns: IntArray, slack: int = 0) -> IntArray | None:
    """Controlled rounding: each cell down or up (or `slack` further), with exactly these row and column sums.

    Zero cells stay zero. None where no such rounding exists.
    """
    near = np.rint(table)
    table = np.where(np.abs(table - near) < NEARLY_WHOLE, near, table)
    low = np.maximum(np.floor(table) - slack, 0).astype(np.int64)
    high = np.where(table > 0, np.ceil(table) + slack, 0).astype(np.int64)
    rows_left, columns_left = rows - low.sum(1), columns - low.sum(0)
    if rows_left.min() < 0 or columns_left.min() < 0 or rows_left.sum() != columns_left.sum():
        return None
    extra = _transport(rows_left, columns_left, high - low)
    return None if extra is None else low + extra


def _transport(supply: IntArray, demand: IntArray, capacity: IntArray) -> IntArray | None:
    """Whole flows from suppliers to consumers that use up supply and demand; None where there are none."""
    n_rows, n_columns = capacity.shape
    graph = np.zeros((n_rows + n_columns + 2,) * 2, dtype=np.int32)
    rows, columns = slice(1, n_rows + 1), slice(n_rows + 1, n_rows + n_columns + 1)
    graph[0, rows] = supply
    graph[rows, columns] = np.minimum(capacity, supply[:, None])
    graph[columns, -1] = demand
    result = maximum_flow(csr_matrix(graph), 0, len(graph) - 1)
    if result.flow_value != supply.sum():
        return None
    return result.flow.toarray()[rows, columns].astype(np.int64)


def _whole_margins(sizes: IntArray, kept: FloatArray, flows: FloatArray) -> tuple[IntArray, IntArray]:
    """Whole numbers of samples that leave and that reach each task, from the real solution of `_solve_kept`.

    Rounded together: what a task keeps and what it receives are each within one of the real solution, so the
    minor share stays within one sample of exact.
    """
    table = np.hstack([flows, np.diag(kept)])  # (T, 2T): row sums are the sizes
    columns = np.ceil(table.sum(0) - NEARLY_WHOLE)
    # A row of what each column lacks to a whole number makes every sum whole, as controlled rounding needs.
    table = np.vstack([table, np.maximum(columns - table.sum(0), 0)])
    rows = np.append(sizes, columns.sum() - sizes.sum())
    whole = _round_table(table, rows.astype(np.int64), columns.astype(np.int64))
    if whole is None:  # a table with whole sums always has a controlled rounding
        raise RuntimeError(f"the flows between tasks of sizes {sizes.tolist()} could not be rounded")
    flows_only = whole[:-1, : len(sizes)]
    return flows_only.sum(1), flows_only.sum(0)


def _solve_kept(sizes: IntArray, minor_share: float, least: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Kept counts a and flows F >= least, by a linear programme; None where there are none.

    a + row sums of F = sizes; column sums of F = L / (1 - L) a. First the largest relative change of a from
    (1 - L) sizes is made small, so that no task vanishes, then the sum of all changes.
    """
    n = len(sizes)
    eye, zero, column = np.eye(n), np.zeros((n, n)), np.zeros((n, 1))
    no_flow = np.zeros((n, n * n))
    sum_rows, sum_columns = np.kron(eye, np.ones(n)), np.kron(np.ones(n), eye)  # (T, T*T), F flattened by rows
    ratio = minor_share / (1 - minor_share)
    target = (1 - minor_share) * sizes
    flow_bounds = [(low, 0 if k % (n + 1) == 0 else None) for k, low in enumerate(least.ravel().tolist())]
    solution = linprog(
        # The unknowns: a, F, the changes |a - target|, and the largest relative change.
        np.concatenate([np.zeros(n + n * n), np.ones(n), [sizes.sum()]]),
        A_eq=np.block([[eye, sum_rows, zero, column], [-ratio * eye, sum_columns, zero, column]]),
        b_eq=np.concatenate([sizes, np.zeros(n)]),
        A_ub=np.block(
            [[eye, no_flow, -eye, column], [-eye, no_flow, -eye, column], [zero, no_flow, eye, -target[:, None]]]
        ),
        b_ub=np.concatenate([target, -target, np.zeros(n)]),
        bounds=[(0, None)] * n + flow_bounds + [(0, None)] * (n + 1),
    )
    if not solution.success:
        return None
    return solution.x[:n], solution.x[n : n + n * n].reshape(n, n)

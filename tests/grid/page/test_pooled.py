"""Comparisons that share their spread, by hand and against another way to compute it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats

from puridiver.grid.page.pooled import against, spread_of
from puridiver.grid.page.sections import by_seed
from puridiver.grid.page.tables import CellRuns
from puridiver.grid.page.verdicts import holm

SEEDS = (1, 2, 3)
BASE = (50.0, 56.0, 53.0)
OTHERS = ((51.0, 58.0, 53.0), (44.0, 49.0, 49.0), (50.0, 57.0, 54.0), (53.0, 55.0, 55.0))


def cell(*accuracies: float, **changes: Any) -> CellRuns:
    rows = [{"seed": seed, "last_accuracy": value / 100} for seed, value in zip(SEEDS, accuracies, strict=False)]
    return CellRuns(None, [{**row, **changes} for row in rows], [])  # type: ignore[arg-type]


def balanced_spread(table: np.ndarray) -> tuple[float, int]:
    """Deviation and degrees of freedom of a whole table without the means of its rows and columns, as in textbooks."""
    rows, columns = table.shape
    left = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0, keepdims=True) + table.mean()
    freedom = (rows - 1) * (columns - 1)
    return math.sqrt(float(np.square(left).sum()) / freedom), freedom


def swept_spread(table: np.ndarray) -> tuple[float, int]:
    """The same where cells are missing (nan): means of rows and columns taken off in turn until none is left."""
    left, there = table.copy(), ~np.isnan(table)
    for _ in range(500):
        left -= np.nanmean(left, axis=1, keepdims=True)
        left -= np.nanmean(left, axis=0, keepdims=True)
    freedom = int(there.sum()) - sum(table.shape) + 1
    return math.sqrt(float(np.nansum(np.square(left))) / freedom), freedom


def test_the_spread_of_a_whole_table_is_the_textbooks() -> None:
    found = spread_of([cell(*BASE), *(cell(*values) for values in OTHERS)])
    deviation, freedom = balanced_spread(np.array([BASE, *OTHERS]))
    assert found is not None
    assert (found.deviation, found.freedom) == (pytest.approx(deviation), freedom)
    assert freedom == 8


def test_the_spread_of_a_table_with_gaps() -> None:
    others = [*OTHERS[:2], *(values[:2] for values in OTHERS[2:]), (40.0,)]
    found = spread_of([cell(*BASE), *(cell(*values) for values in others)])
    table = np.array([(*values, *[math.nan] * (3 - len(values))) for values in (BASE, *others[:4])])
    deviation, freedom = swept_spread(table)
    assert found is not None
    assert (found.deviation, found.freedom) == (pytest.approx(deviation), freedom)
    assert freedom == 6


def test_two_seeds_that_happen_to_agree_are_not_sure() -> None:
    """By their own test a difference of 4.0 and 4.1 points would be."""
    others = [(46.0, 51.9), *(values[:2] for values in OTHERS)]
    found = against(cell(*BASE), [cell(*values) for values in others])
    alone = by_seed(cell(*others[0]), cell(*BASE))
    assert alone.direction == -2
    assert found[0].difference == alone.difference
    assert found[0].error == pytest.approx(swept_spread(np.array([(*v, math.nan) for v in others] + [BASE]))[0])
    assert found[0].direction in (0, -1)


def test_errors_and_chances_are_by_that_spread() -> None:
    found = against(cell(*BASE), [cell(*values) for values in OTHERS])
    deviation, freedom = balanced_spread(np.array([BASE, *OTHERS]))
    error = deviation * math.sqrt(2 / 3)
    assert [one.difference for one in found] == pytest.approx([1.0, -17 / 3, 2 / 3, 4 / 3])
    assert [one.error for one in found] == pytest.approx([error] * 4)
    chances = [2 * scipy.stats.t.sf(abs(one.difference or 0) / error, freedom) for one in found]
    assert [one.chance for one in found] == pytest.approx(chances)
    assert found[1].corrected == pytest.approx(4 * chances[1])
    assert [one.direction for one in found] == [0, -2, 0, 0]


def test_what_is_left_out_of_the_spread_is_compared_by_it_all_the_same() -> None:
    usual = [cell(*values) for values in OTHERS]
    collapsed, alone = cell(10.0, 10.0, 10.0, diverged=True), cell(40.0)
    found = against(cell(*BASE), [*usual, collapsed, alone])
    spread = spread_of([cell(*BASE), *usual])
    assert spread is not None
    assert found[4].error == pytest.approx(spread.deviation * math.sqrt(2 / 3))
    assert (found[4].direction, found[4].diverged) == (-2, 3)
    assert (found[5].difference, found[5].error, found[5].direction) == (-10.0, None, None)


def test_a_setting_that_diverges_now_and_then_is_on_its_own() -> None:
    usual, base = [cell(*values) for values in OTHERS], cell(*BASE)
    torn = cell(52.0, 10.0, 55.0)
    torn.rows[1]["diverged"] = True
    found = against(base, [*usual, torn])[4]
    alone = by_seed(torn, base)
    assert (found.error, found.chance, found.diverged) == (alone.error, alone.chance, 1)
    assert found.direction == 0


def test_where_the_recipe_as_it_is_diverged_now_and_then_nothing_is_sure() -> None:
    base = cell(50.0, 10.0, 53.0)
    base.rows[1]["diverged"] = True
    found = against(base, [cell(*values) for values in OTHERS])
    assert [(one.diverged, one.base_diverged) for one in found] == [(0, 1)] * 4
    assert [one.error for one in found] == [by_seed(cell(*values), base).error for values in OTHERS]
    assert {one.direction for one in found} == {0}


@pytest.mark.parametrize(
    "others",
    [OTHERS[:2], [values[:1] for values in OTHERS], [tuple(value + 1 for value in BASE)] * 3],
    ids=["few settings", "one seed", "no spread"],
)
def test_without_enough_to_learn_from_each_pair_is_on_its_own(others: list[tuple[float, ...]]) -> None:
    base, cells = cell(*BASE), [cell(*values) for values in others]
    assert against(base, cells) == [by_seed(one, base) for one in cells]


def test_holms_correction() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_between_sure_and_by_chance_a_difference_may_be_one() -> None:
    others = [*OTHERS[:1], *OTHERS[2:], (53.0, 58.0, 55.0), (51.0, 56.5, 54.0)]
    found = against(cell(*BASE), [cell(*values) for values in others])[3]
    assert found.chance is not None
    assert found.corrected is not None
    assert found.chance <= 0.05 < found.corrected
    assert found.direction == 1

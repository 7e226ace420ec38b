"""Comparisons that share their spread, by hand and against another way to compute it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats

from puridiver.grid.page.pooled import against, holm, spread_of
from puridiver.grid.page.sections import by_seed
from puridiver.grid.page.tables import CellRuns

SEEDS = (1, 2, 3)
BASE = (50.0, 56.0, 53.0)
OTHERS = ((51.0, 58.0, 53.0), (44.0, 49.0, 49.0), (50.0, 57.0, 54.0), (53.0, 55.0, 55.0))


def cell(*accuracies: float, **changes: Any) -> CellRuns:
    rows = [{"seed": seed, "last_accuracy": value / 100} for seed, value in zip(SEEDS, accuracies, strict=False)]
    return CellRuns(None, [{**row, **changes} for row in rows], [])  # type: ignore[arg-type]


def least_squares(table: np.ndarray) -> tuple[float, int]:
    """Residual deviation and degrees of freedom of accuracy = setting + seed, as a regression."""
    rows, columns = table.shape
    design = [[*np.eye(rows)[r], *np.eye(columns)[c]] for r in range(rows) for c in range(columns)]
    _, _, rank, _ = np.linalg.lstsq(np.array(design), table.ravel(), rcond=None)
    fitted = np.array(design) @ np.linalg.lstsq(np.array(design), table.ravel(), rcond=None)[0]
    freedom = table.size - int(rank)
    return math.sqrt(float(np.square(table.ravel() - fitted).sum()) / freedom), freedom


def test_the_spread_is_what_a_regression_on_setting_and_seed_leaves() -> None:
    found = spread_of([cell(*BASE), *(cell(*values) for values in OTHERS)], SEEDS)
    deviation, freedom = least_squares(np.array([BASE, *OTHERS]))
    assert found is not None
    assert (found.deviation, found.freedom) == (pytest.approx(deviation), freedom)
    assert freedom == 8


def test_errors_and_chances_are_by_that_spread() -> None:
    found = against(cell(*BASE), [cell(*values) for values in OTHERS])
    deviation, freedom = least_squares(np.array([BASE, *OTHERS]))
    error = deviation * math.sqrt(2 / 3)
    assert [one.difference for one in found] == pytest.approx([1.0, -17 / 3, 2 / 3, 4 / 3])
    assert [one.error for one in found] == pytest.approx([error] * 4)
    chances = [2 * scipy.stats.t.sf(abs(one.difference or 0) / error, freedom) for one in found]
    assert [one.chance for one in found] == pytest.approx(chances)
    assert found[1].corrected == pytest.approx(4 * chances[1])
    assert [one.direction for one in found] == [0, -2, 0, 0]


def test_what_is_left_out_of_the_spread_is_compared_by_it_all_the_same() -> None:
    usual = [cell(*values) for values in OTHERS]
    collapsed, short, alone = cell(10.0, 10.0, 10.0, diverged=True), cell(40.0, 46.0), cell(40.0)
    found = against(cell(*BASE), [*usual, collapsed, short, alone])
    spread = spread_of([cell(*BASE), *usual], SEEDS)
    assert spread is not None
    assert found[4].error == pytest.approx(spread.deviation * math.sqrt(2 / 3))
    assert found[5].error == pytest.approx(spread.deviation * math.sqrt(2 / 2))
    assert (found[6].difference, found[6].error, found[6].direction) == (-10.0, None, None)
    assert found[4].direction == found[5].direction == -2


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

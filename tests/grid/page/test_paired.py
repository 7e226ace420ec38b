"""Lines of a table less others: what the parts of an ablation are worth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from puridiver.grid.page.paired import parts_less_the_whole
from puridiver.grid.page.tables import Table, sort_rows
from tests.grid.page.samples import full_run

PARTS = {
    "neither": {"relabel": False, "consistency": False},
    "re-label": {"consistency": False},
    "consistency": {"relabel": False},
    "re-label + consistency": {},
}
ACCURACIES = {
    "neither": (55.0, 58.0, 60.0),
    "re-label": (56.0, 60.0, 59.0),
    "consistency": (43.0, 42.0, 47.0),
    "re-label + consistency": (54.0, 59.0, 57.0),
}


def table3(*titles: str, **changes: Any) -> Table:
    rows = [
        full_run(seed, accuracy / 100, options_changed=PARTS[title], **changes)
        for title in titles
        for seed, accuracy in enumerate(ACCURACIES[title], start=1)
    ]
    (table,) = sort_rows(rows).tables_of("cifar10", "table3")
    return table


def test_parts_are_judged_by_the_spread_of_all() -> None:
    found = parts_less_the_whole(table3(*PARTS))
    table = np.array(list(ACCURACIES.values()))
    left = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0, keepdims=True) + table.mean()
    error = math.sqrt(float(np.square(left).sum()) / 6) * math.sqrt(2 / 3)
    assert f"| neither |  | +1.00 ± {error:.2f} (3; p = 0." in found
    assert f"| consistency |  | -12.67 ± {error:.2f} (3; p &lt; 0.01, among all &lt;0.01) |" in found
    assert "| re-label + consistency |" not in found


def test_with_few_parts_each_has_a_test_of_its_own() -> None:
    found = parts_less_the_whole(table3("neither", "re-label + consistency"))
    assert "| neither |  | +1.00 ± 1.15 (3; p = 0.48) |" in found
    assert ", among all 0" not in found


@pytest.mark.parametrize("titles", [("neither",), ("re-label + consistency",)], ids=["no whole", "no part"])
def test_without_both_there_is_nothing_to_tell(titles: tuple[str, ...]) -> None:
    assert parts_less_the_whole(table3(*titles)) == ""

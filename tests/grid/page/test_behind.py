"""Tests of which rows a figure is made of."""

from __future__ import annotations

import pytest

from puridiver.grid.page.behind import figures_of, line_number
from tests.grid.page.samples import full_run

OFFICIAL = "PuriDivER, recipe official"


def test_a_figure_names_its_rows_by_their_place_in_the_ledger() -> None:
    rows = [full_run(9, options_changed={"eta": 2.0}), full_run(2, 0.4), full_run(1, 0.6)]
    (figure,) = [found for found in figures_of(rows, OFFICIAL) if "Table 1" in found.heading]
    assert sorted(line_number(row) for row in figure.rows) == [2, 3]
    assert figure.heading.startswith("CIFAR-10, Table 1")
    assert figure.heading.endswith(f"{OFFICIAL}, sym-40: 50.00%, seeds 1, 2")


def test_older_runs_of_a_figure_are_told_apart() -> None:
    figure = figures_of([full_run(1, 0.9), full_run(1, 0.5)], OFFICIAL, "sym-40")[0]
    assert [line_number(row) for row in figure.rows] == [2]
    assert [line_number(row) for row in figure.older] == [1]


@pytest.mark.parametrize(
    ("title", "noise", "told"),
    [
        ("PuriDivR", None, "no table has a line 'PuriDivR'; lines with runs are: .*PuriDivER, recipe official"),
        (OFFICIAL, "sym-41", "has no noise 'sym-41', but asym-20, asym-40"),
        (OFFICIAL, "sym-20", "has no runs under sym-20"),
        ("RSV", None, "the line 'RSV' has no runs$"),
    ],
)
def test_what_was_not_run_is_refused(title: str, noise: str | None, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        figures_of([full_run(1)], title, noise)

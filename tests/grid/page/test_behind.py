"""Tests of which rows a figure is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from puridiver.grid.page import behind
from puridiver.grid.page.behind import figures_of, line_number
from puridiver.grid.page.tables import sort_rows
from puridiver.report.ledger import read_rows
from tests.grid.page.samples import full_run

ROOT = Path(__file__).parents[3]
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


def test_a_title_means_shuffled_streams_unless_it_names_the_order_of_the_files() -> None:
    rows = [full_run(seed, 0.4, stream=f"official:sym40:{seed}:listed") for seed in (1, 2)]
    for title in (OFFICIAL, f"{OFFICIAL}, files' order"):  # in that order alone
        figures = figures_of(rows, title, "sym-40")
        assert {line_number(row) for figure in figures for row in figure.rows} == {1, 2}
        assert all(", in the order of the files: " in figure.heading for figure in figures)
    rows.append(full_run(1, 0.6))
    for title, expected in ((OFFICIAL, {3}), (f"{OFFICIAL}, files' order", {1, 2})):
        figures = figures_of(rows, title)
        assert {line_number(row) for figure in figures for row in figure.rows} == expected
    with pytest.raises(ValueError, match=f": {OFFICIAL}; {OFFICIAL}, files' order"):
        figures_of(rows, "nothing")


def test_a_line_of_purities_is_of_the_same_runs() -> None:
    title = f"memory purity %: {OFFICIAL}"
    (figure,) = [found for found in figures_of([full_run(1, 0.4)], title) if "Table 1" in found.heading]
    assert figure.heading.endswith(f"{OFFICIAL}, sym-40: 40.00%, memory purity 60.00%, seeds 1")


def test_every_line_of_ours_in_the_readme_names_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = read_rows(ROOT / "results" / "cifar10.jsonl")
    contents = sort_rows(rows)  # takes seconds: once for all titles
    monkeypatch.setattr(behind, "sort_rows", lambda numbered: contents)
    block = (ROOT / "README.md").read_text().partition("<!-- headline:begin -->")[2].partition("\n\n")[0]
    titles = [line.split(" | ")[0].removeprefix("| ") for line in block.splitlines()[3:]]
    ours = [title for title in titles if "rerun" not in title and "author's" not in title]
    assert {"RSV, files' order", f"memory purity %: {OFFICIAL}"} < set(ours)
    for title in ours:
        assert len({figure.heading for figure in figures_of(rows, title) if "Table 1" in figure.heading}) == 5, title


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

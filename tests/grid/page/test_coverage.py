"""How much of the paper a ledger has run."""

from __future__ import annotations

from puridiver.grid.page.coverage import HEADINGS, coverage
from puridiver.grid.page.tables import sort_rows
from tests.grid.page.samples import full_run


def counts(rows: list[dict]) -> dict[str, list[int]]:
    lines = [line.strip("| ").split(" | ") for line in coverage(sort_rows(rows)).splitlines() if line.startswith("|")]
    assert tuple(lines[0]) == HEADINGS
    return {name: [int(cell) for cell in cells] for name, *cells in lines[2:]}


def test_cells_and_those_with_enough_seeds_are_counted_in_either_order() -> None:
    assert counts([])["Table 1, CIFAR-10"] == [65, 0, 0, 0]
    rows = [full_run(seed, 0.5) for seed in (1, 2)]
    assert counts(rows)["Table 1, CIFAR-10"] == [65, 1, 0, 0]
    rows += [full_run(seed, 0.5, stream=f"official:sym40:{seed}:listed") for seed in (1, 2, 3)]
    found = counts(rows)
    assert found["Table 1, CIFAR-10"] == [65, 1, 1, 0]
    assert found["Table 3, CIFAR-10"] == [20, 1, 1, 0]  # the same runs
    assert found["rows 1 to 15 of FIDELITY.md, from `official`, CIFAR-10"] == [32, 1, 1, 0]
    assert found["Table 2, WebVision"] == [13, 0, 0, 0]


def test_co_teaching_that_is_told_nothing_is_not_counted_as_run_but_as_the_same() -> None:
    rows = [full_run(1, 0.5, sampler="rsv", trainer="plain")]
    assert counts(rows)["Table 1, CIFAR-10"] == [65, 1, 0, 1]
    rows.append(full_run(1, 0.5, sampler="rsv", trainer="coteaching", told_noise=True))
    assert counts(rows)["Table 1, CIFAR-10"] == [65, 2, 0, 0]


def test_a_row_that_changes_nothing_of_a_recipe_is_not_counted_as_run_but_as_the_same() -> None:
    line = "the same, from `paper`, CIFAR-10"
    as_it_is = full_run(1, 0.1, recipe="paper", epochs=256)
    assert counts([as_it_is])[line] == [32, 1, 0, 1]
    own = {**as_it_is, "options_changed": {"alpha_loss": "mixed"}}
    assert counts([as_it_is, own])[line] == [32, 1, 0, 1]
    assert counts([])[line] == [32, 0, 0, 0]

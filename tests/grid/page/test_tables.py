"""Which rows stand in which table of the results page: worked out by hand on small ledgers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from puridiver.grid.page.tables import CellRuns, Contents, sort_rows, spelt_out
from puridiver.recipes import OFFICIAL, RECIPES, default_changes, replaced
from tests.grid.page.samples import full_run, runs_of


def cell(contents: Contents, preset: str, title: str, noise: str = "sym-40") -> CellRuns:
    (table,) = contents.tables_of("cifar10", preset)
    return table.line(title).cells[table.noises.index(noise)]


def seeds(runs: Sequence[Mapping[str, Any]]) -> list[int]:
    return [run["seed"] for run in runs]


@pytest.mark.parametrize(
    ("preset", "title"),
    [
        ("table1", "PuriDivER, recipe official"),
        ("table3", "re-label + consistency"),
        ("table4", "adaptive"),
        ("fidelity-official", "official as it is"),
    ],
)
def test_a_run_stands_in_every_table_it_is_of(preset: str, title: str) -> None:
    contents = sort_rows([full_run(1), full_run(2)])
    assert seeds(cell(contents, preset, title).rows) == [1, 2]
    assert not contents.other


@pytest.mark.parametrize(
    "change",
    [
        {"precision": "float32"}, {"graphs": False}, {"device": "a CPU"}, {"stream": "blurry-10"}, {"shortened": True},
        {"memory": 200}, {"network": "small"}, {"epochs": 3}, {"sampler": "own"}, {"trainer": "own"}, {"recipe": "own"},
        {"options_changed": {"no_such_option": 1}}, {"data": "digits"}, {"told_noise": True},
    ],
)  # fmt: skip
def test_what_is_no_full_run_of_a_method_here_is_another_run(change: dict[str, Any]) -> None:
    contents = sort_rows([full_run(1, 0.5), full_run(2, 0.9, **change)])
    found = cell(contents, "table1", "PuriDivER, recipe official")
    assert seeds(found.rows) == [1]
    told = cell(contents, "table1", "PuriDivER, told the noise").rows if "told_noise" in change else []
    assert seeds([*contents.other, *told]) == [2]


def test_a_run_on_validation_data_is_in_no_table() -> None:
    contents = sort_rows([full_run(1, evaluated_on="validation", stream="blurry-10")])
    assert not cell(contents, "table1", "PuriDivER, recipe official").rows
    assert (seeds(contents.validation), seeds(contents.other)) == ([1], [])


def test_of_a_repeated_run_the_last_counts_and_not_the_best() -> None:
    rows = [full_run(1, 0.9), full_run(1, 0.4, commit="b" * 40), full_run(2, 0.5)]
    contents = sort_rows(rows)
    found = cell(contents, "table1", "PuriDivER, recipe official")
    assert [run["last_accuracy"] for run in found.rows] == [0.4, 0.5]
    assert [run["last_accuracy"] for run in found.older] == [0.9]
    assert contents.older == [rows[0]]


def test_runs_of_different_hashes_of_settings_are_not_averaged() -> None:
    two = [full_run(seed, 0.4, settings_hash="one") for seed in (1, 2)]
    contents = sort_rows([*two, full_run(3, 0.9, settings_hash="another")])
    found = cell(contents, "table1", "PuriDivER, recipe official")
    assert (seeds(found.rows), seeds(found.older)) == ([1, 2], [3])
    newer = [full_run(seed, 0.3, settings_hash="another") for seed in (3, 4)]  # as many: the later ones count
    found = cell(sort_rows([*two, *newer]), "table1", "PuriDivER, recipe official")
    assert (seeds(found.rows), seeds(found.older)) == ([3, 4], [1, 2])


def test_every_row_is_somewhere_once() -> None:
    rows = [
        *runs_of("table1"), *runs_of("table3"), *runs_of("disjoint"), full_run(1, precision="float32"),
        full_run(1, evaluated_on="validation"), full_run(1, sampler="own"),
    ]  # fmt: skip
    contents = sort_rows(rows)
    counted = {
        id(run)
        for tables in contents.tables.values()
        for table in tables
        for line in table.lines
        for found in line.cells
        for run in found.rows
    }
    assert len(contents.validation) == 1
    assert len(contents.other) == 2
    assert len(counted) + len(contents.older) + 3 == len(rows)


def listed_run(seed: int, **changes: Any) -> dict[str, Any]:
    return full_run(seed, stream=f"official:sym40:{seed}:listed", **changes)


def test_runs_in_the_order_of_the_files_have_tables_of_their_own() -> None:
    listed = [listed_run(1), listed_run(2)]
    assert [group.listed for group in sort_rows(listed).tables] == [True]
    both = sort_rows([*listed, full_run(3), *runs_of("disjoint")])
    assert [(group.data, group.listed) for group in both.tables] == [("cifar10", False), ("cifar10", True)]
    in_table1 = [tables[0].line("PuriDivER, recipe official").cells[1].rows for tables in both.tables.values()]
    assert [seeds(rows) for rows in in_table1] == [[3], [1, 2]]
    names = [{table.preset for table in tables} for tables in both.tables.values()]
    assert names[0] - names[1] == {"disjoint"}  # of no published stream: once, and not lost
    assert not both.other


def test_a_preset_has_a_table_for_each_order_that_was_run_the_released_program_s_first() -> None:
    both = sort_rows([listed_run(1), full_run(2)])
    assert [table.listed for table in both.tables_of("cifar10", "table1")] == [False, True]
    assert [table.listed for table in sort_rows([listed_run(1)]).tables_of("cifar10", "table1")] == [True]
    assert [table.listed for table in sort_rows([]).tables_of("cifar10", "fidelity-paper")] == [False]


def test_rows_that_do_not_tell_the_order_are_in_that_of_the_files() -> None:
    """Before there was a choice it was the only one."""
    (group,) = sort_rows([full_run(1, stream="official:sym40:1")]).tables
    assert group.listed


def test_co_teaching_told_and_untold_are_two_lines() -> None:
    rows = runs_of("table1") + runs_of("table1", 0.7, {"recipe": "official", "tell_noise": True})
    contents = sort_rows([row for row in rows if row["trainer"] == "coteaching"])
    untold = cell(contents, "table1", "RM + Co-teaching").rows
    told = cell(contents, "table1", "RM + Co-teaching, told the noise").rows
    assert [round(run["last_accuracy"], 2) for run in (untold[0], told[0])] == [0.51, 0.71]


def test_the_released_step_has_a_line_of_its_own() -> None:
    step = {"cutmix_sets": "clean", "relabel_view": "in_step"}
    everything = {**step, "last_batch": "trained", "weak": "crop_flip", "strong": "autoaugment_grey"}
    others = [full_run(2, options_changed=step), full_run(4, options_changed=everything)]
    others.append(full_run(5, options_changed={"shortcut_relu": True}))
    loaded = {"relabel_weight": "unsorted_loss_by_share", "set_batches": "clean_full_by_share"}
    others.append(full_run(6, options_changed=loaded))
    contents = sort_rows([full_run(1), *others, full_run(3, options_changed={"eta": 2.0})])
    title = "PuriDivER, recipe official with rows 21, 22, 24, 25 and 26"
    assert seeds(cell(contents, "table1", title).rows) == [4]
    assert seeds(cell(contents, "table1", "PuriDivER, recipe official").rows) == [1]
    assert seeds(cell(contents, "table1", "PuriDivER, recipe official with rows 21 and 22").rows) == [2]
    assert seeds(cell(contents, "table1", "PuriDivER, recipe official with row 27").rows) == [5]
    assert seeds(cell(contents, "table1", "PuriDivER, recipe official with rows 28 and 29").rows) == [6]
    assert seeds(contents.other) == [3]


@pytest.mark.parametrize("preset", ["table1", "table3", "table4", "fidelity-official", "fidelity-paper"])
def test_a_whole_grid_leaves_no_cell_empty(preset: str) -> None:
    changes = {"recipe": "paper" if preset == "fidelity-paper" else "official"}
    contents = sort_rows(runs_of(preset, changes=changes))
    (table,) = contents.tables_of("cifar10", preset)
    not_in_the_grid = (
        ", told the noise",
        "recipe paper",
        "recipe puridiver",
        "rows 21 and 22",
        "25 and 26",
        "row 27",
        "28 and 29",
        "NTD",
        "(row 20)",
    )
    lines = [line for line in table.lines if not line.title.endswith(not_in_the_grid)]
    assert all(seeds(found.rows) == [1, 2, 3] for line in lines for found in line.cells)
    assert not contents.other


def test_spr_has_a_line_for_each_budget_and_puridiver_does_not_feel_it() -> None:
    budgets = [{"recipe": "official", "options": {"spr_budget": budget}} for budget in (0.01, 0.1)]
    rows = [row for changes in budgets for row in runs_of("disjoint", changes=changes)]
    contents = sort_rows([row for row in rows if row["sampler"] == "spr" or "0.01" in str(row["options_changed"])])
    for title in ("SPR, spr_budget 0.01", "SPR, spr_budget 0.1", "PuriDivER"):
        assert seeds(cell(contents, "disjoint", title).rows) == [1, 2, 3]
    assert not contents.other


def test_the_default_recipe_counts_as_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it becomes later; rows that do not tell are of when it was `official`."""
    told = full_run(3, recipe="puridiver", default_changes={"eta": 2.0})
    untold = full_run(2, recipe="puridiver")
    del untold["default_changes"]
    rows = [full_run(1), untold, told, full_run(1, options_changed={"eta": 2.0})]
    same = sort_rows(rows)
    assert seeds(cell(same, "table1", "PuriDivER, recipe official").rows) == [1, 2]
    assert seeds(same.other) == [3, 1]
    monkeypatch.setitem(RECIPES, "puridiver", replaced(OFFICIAL, {"eta": 2.0}))
    other = sort_rows(rows)
    assert seeds(cell(other, "table1", "PuriDivER, recipe official").rows) == [1, 2]
    assert seeds(cell(other, "table1", "PuriDivER, recipe puridiver").rows) == [1, 3]


def test_options_that_a_method_does_not_read_are_none_of_its_settings() -> None:
    def changes(sampler: str, trainer: str, **options: object) -> dict:
        run = full_run(1, sampler=sampler, trainer=trainer, options_changed=options)
        return spelt_out(run)["options_changed"]

    assert changes("rsv", "plain", eta=2.0, arrival_weight=0.5, online_lr=0.1) == {"online_lr": 0.1}
    assert changes("rsv", "puridiver", eta=2.0, ntd_views=2) == {"eta": 2.0}
    assert changes("ntd", "plain", ntd_views=2, arrival_weight=0.5) == {"ntd_views": 2}
    assert changes("puridiver", "plain", ntd_views=2, arrival_weight=0.5) == {"ntd_views": 2, "arrival_weight": 0.5}
    assert changes("puridiver", "plain", ntd_views=2) == {}
    assert changes("a plugin", "plain", eta=2.0, spr_budget=0.1) == {"eta": 2.0}  # nobody knows what it reads


def test_what_only_predicts_between_memory_trainings_keeps_no_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RECIPES, "puridiver", replaced(OFFICIAL, {"eta": 2.0, "online_prediction": "both"}))
    rows = [
        full_run(1, options_changed={"eta": 2.0}),
        full_run(2, recipe="puridiver", default_changes=default_changes()),
    ]
    contents = sort_rows([*rows, full_run(3, options_changed={"online_prediction": "consolidated"})])
    assert seeds(cell(contents, "table1", "PuriDivER, recipe puridiver").rows) == [1, 2]
    assert seeds(cell(contents, "table1", "PuriDivER, recipe official").rows) == [3]

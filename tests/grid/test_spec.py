"""Grids from presets and files: their cells, the choice and change of parts, and errors that name file and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from puridiver.errors import DataError
from puridiver.grid.run import GridRun
from puridiver.grid.spec import (
    Column,
    Grid,
    Method,
    cells,
    find_grid,
    grid_of_table,
    only,
    with_changes,
)
from tests.grid.samples import RSV, small_grid

FULL = """
[grid]
title = "Mine"
methods = [
  "rsv+plain",
  {sampler = "puridiver", trainer = "puridiver", title = "ours", options = {eta = 1}, memory = 50},
]
data = ["digits"]
streams = ["blurry-10", "disjoint"]
noises = ["sym-20", "asym-40"]
seeds = [3, 4]
epochs = 2
recipe = "paper"
[grid.options]
lr = 0.1
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


def test_a_file_gives_every_method_on_every_column_and_seed(tmp_path: Path) -> None:
    grid = find_grid(written(tmp_path, FULL))
    found = cells(grid)
    assert (grid.name, grid.title) == ("mine", "Mine")
    assert [method.title for method in grid.methods] == ["rsv + plain", "ours"]
    titles = ["digits sym-20", "digits asym-40", "digits disjoint sym-20", "digits disjoint asym-40"]
    assert [column.title for column in grid.columns] == titles
    assert [cell.config.seed for cell in found] == [3] * 8 + [4] * 8  # one whole table after the other
    assert len({cell.slug for cell in found}) == len(found) == 16
    ours = next(cell for cell in found if cell.method == "ours")
    assert (ours.config.memory, ours.config.epochs, ours.config.recipe) == (50, 2, "paper")
    assert ours.config.options == {"lr": 0.1, "eta": 1.0}
    assert type(ours.config.options["eta"]) is float
    assert ours.names == {"grid": "mine", "method": "ours", "column": "digits sym-20", "seed": 3}


def test_a_study_is_named_after_its_folder_and_data_and_seeds_may_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "losses").mkdir()
    (tmp_path / "losses" / "study.toml").write_text(FULL)
    grid = find_grid(tmp_path / "losses" / "study.toml", ["cifar10"], [7])
    assert grid.name == "losses"
    assert {(cell.config.data, cell.config.seed) for cell in cells(grid)} == {("cifar10", 7)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epoch": 3}, "but got 'epoch'; did you mean epochs"),
        ({"seed": 3}, "but got 'seed'"),
        ({"methods": None}, "methods should be a list"),
        ({"methods": ["rsv"]}, "a method should have a sampler and a trainer"),
        ({"methods": ["rsv+plain", {"sampler": "rsv", "trainer": "plain"}]}, "methods should differ"),
        ({"methods": [{"sampler": "rsv", "trainer": "plain", "speed": 1}]}, "but got 'speed'"),
        ({"noises": ["sym-20", "sym-20"]}, "columns should differ"),
        ({"seeds": [True]}, "seeds should be a list of int"),
        ({"memory": 0}, "memory should be at least 1"),
        ({"evaluate_on": "train"}, "evaluate_on should be one of"),
        ({"options": 3}, "options should be a table"),
    ],
)
def test_what_is_wrong_in_a_table_is_named(change: dict[str, Any], message: str) -> None:
    table = {"methods": ["rsv+plain"], **change}
    with pytest.raises(ValueError, match=message):
        grid_of_table({key: value for key, value in table.items() if value is not None})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": ["rsv+plane"]}, "trainer should be one of .* but got 'plane'; did you mean plain"),
        ({"methods": ["rzv+plain"]}, "sampler should be one of .* but got 'rzv'; did you mean rsv"),
        ({"network": "no-such"}, "network should be one of"),
        ({"options": {"etta": 1}}, "no option 'etta'; did you mean eta"),
    ],
)
def test_a_grid_that_runs_has_methods_and_options_that_are_known(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    grid = grid_of_table({"methods": ["rsv+plain"], **change})
    with pytest.raises(ValueError, match=message):
        GridRun([grid], tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FULL.replace("epochs = 2", 'epochs = "2"'), "epochs should be a whole number"),
        (FULL.replace("memory = 50", "memory = 0"), "memory should be at least 1"),
        ("", "should hold a table"), ("grid = 3", "should hold a table"), ("[grid", ""), ("\x00", ""),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_named_with_the_file(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"mine\.toml: .*{message}"):
        find_grid(written(tmp_path, text))


def test_methods_and_noises_are_chosen() -> None:
    grids = [find_grid("table1", ["digits"]), find_grid("table3", ["digits"])]
    (chosen,) = only(grids, ["PuriDivER", "RSV + DivideMix"])
    assert [method.title for method in chosen.methods] == ["RSV + DivideMix", "PuriDivER"]
    assert [c.noise for grid in only(grids, noises=["sym-40"]) for c in grid.columns] == ["sym-40"] * 2
    with pytest.raises(ValueError, match=r"but got 'Puridiver'; did you mean PuriDivER"):
        only(grids, ["Puridiver"])
    with pytest.raises(ValueError, match=r"'sym-20'.*but got 'sym-99'"):
        only(grids, noises=["sym-99"])


def test_changes_reach_all_cells_and_the_grids_name_says_what_decides_the_figures() -> None:
    grid = with_changes(
        small_grid([RSV, Method("own", "rsv", "plain", {"memory": 9, "lr": 0.2})]),
        {"memory": 30, "data_root": "/data", "device": None, "recipe": "paper", "options": {"lr": 0.5}},
    )
    assert grid.name == "small memory=30 recipe=paper lr=0.5"
    found = {cell.method: cell.config for cell in cells(grid)}
    assert (found["RSV"].memory, found["RSV"].options, found["RSV"].data_root) == (30, {"lr": 0.5}, "/data")
    assert (found["own"].memory, found["own"].options) == (9, {"lr": 0.2})  # what is a method's own goes first
    assert found["own"].recipe == "paper"


def test_epochs_of_a_method_go_before_the_columns_but_not_before_changed_ones() -> None:
    grid = Grid("g", "g", (Method("SPR", "spr", "spr", {"epochs": 50}),), (Column("digits", "disjoint", None, (1,)),))
    assert cells(with_changes(grid, {"memory": 7}))[0].config.epochs == 50
    for changes in ({"epochs": 3}, {"options": {"epochs": 3}}):
        assert cells(with_changes(grid, changes))[0].config.epochs == 3

"""Which runs share a cell of a table: all of the grid's own, and never two of different settings or code."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from puridiver.cli import main
from puridiver.data import load
from puridiver.grid.cells import Cell, Grid
from puridiver.grid.define import find_grid, read_grid, with_methods, with_noises
from puridiver.grid.select import Asked
from puridiver.grid.table import GridTable, make_table
from puridiver.recipes import default_changes
from puridiver.report.reading import find_runs, grouped
from puridiver.runs.config import RunConfig
from puridiver.runs.experiment import Experiment
from puridiver.streams import make_stream
from tests.grid.samples import TINY, row, rows_of, without_hash
from tests.learner_samples import patterns
from tests.streams.splits import write_npz
from tests.wild import write_classes

DOCUMENT = Path(__file__).parents[2] / "docs" / "GRIDS.md"
TWO = 'seeds = [0, 1]\nmethods = ["rsv+plain", {sampler = "rsv", trainer = "plain", title = "wide", options = OPTIONS}]'


def grid_of(tmp_path: Path, text: str, name: str = "mine") -> Grid:
    path = tmp_path / f"{name}.toml"
    path.write_text(f"[grid]\ndiversity = false\n{text}\n")
    return read_grid(path)


def figures(table: GridTable) -> dict[str, list[str]]:
    return {title: [entry.ours for entry in line] for block in table.blocks for title, line in block.lines}


def by_title(**accuracy: float) -> Any:
    def of(cell: Cell) -> float:
        return accuracy[cell.method.title.partition(" ")[0]]

    return of


# All of the grid's own runs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("hashed", [True, False])
def test_a_full_ledger_of_the_documents_example_leaves_no_cell_empty(tmp_path: Path, hashed: bool) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (tmp_path / "mine.toml").write_text(example)
    grid = read_grid(tmp_path / "mine.toml")
    rows = rows_of(grid, lambda cell: 0.2 if cell.method.sampler == "rsv" else 0.4)
    rows = rows if hashed else without_hash(rows)
    for asked in (None, Asked({})):
        table = make_table(grid, rows, asked=asked)
        assert figures(table) == {
            "rsv + dividemix": ["20.0 ± 0.0 (3)"] * 2,
            "PuriDivER, strong": ["40.0 ± 0.0 (3)"] * 2,
            "PuriDivER as released": ["40.0 ± 0.0 (3)"] * 2,
        }
        own = "PuriDivER as released by recipe=official"
        assert table.notes == ("last accuracy %, mean ± standard deviation (seeds)", own)
        assert "blurry-10 or disjoint, 5 tasks, memory 60" in table.blocks[0].heading


@pytest.mark.parametrize("hashed", [True, False])
def test_methods_may_differ_by_epochs(tmp_path: Path, hashed: bool) -> None:
    grid = grid_of(tmp_path, TWO.replace("OPTIONS", "{epochs = 3}"))
    rows = rows_of(grid, by_title(rsv=0.9, wide=0.2))
    table = make_table(grid, rows if hashed else without_hash(rows))
    assert figures(table) == {"rsv + plain": ["90.0 ± 0.0 (2)"], "wide": ["20.0 ± 0.0 (2)"]}
    assert "31 or 3 epochs" in table.blocks[0].heading


@pytest.mark.parametrize("hashed", [True, False])
def test_methods_may_differ_by_recipe_and_by_what_they_know(tmp_path: Path, hashed: bool) -> None:
    """And a row of another recipe, or of one that knew less, stands in no other's cell."""
    one = '{sampler = "puridiver", trainer = "puridiver", '
    told = '{sampler = "rsv", trainer = "coteaching", tell_noise = true, title = "told"}'
    methods = f'{one}recipe = "official", title = "released"}}, {one}recipe = "paper", title = "printed"}}, {told}'
    grid = grid_of(tmp_path, f"seeds = [0, 1]\nmethods = [{methods}]")
    rows = rows_of(grid, by_title(released=0.6, printed=0.1, told=0.5))
    rows = rows if hashed else without_hash(rows)
    table = make_table(grid, rows)
    assert figures(table) == {"released": ["60.0 ± 0.0 (2)"], "printed": ["10.0 ± 0.0 (2)"], "told": ["50.0 ± 0.0 (2)"]}
    assert "recipe official or paper or puridiver, some told the noise" in table.blocks[0].heading
    assert table.notes[-1] == "released by recipe=official; printed by recipe=paper; told by tell_noise=True"
    untold = [row for row in rows if row["recipe"] == "official"]
    assert figures(make_table(grid, untold)) == {"released": ["60.0 ± 0.0 (2)"], "printed": ["-"], "told": ["-"]}


def test_a_methods_own_recipe_is_what_it_comes_to(tmp_path: Path) -> None:
    """A run by the default recipe is that of `official` with all that makes the default of it."""
    options = ", ".join(f"{name} = {json.dumps(value)}" for name, value in default_changes().items())
    spelt = f'{{sampler = "rsv", trainer = "plain", title = "spelt", recipe = "official", options = {{{options}}}}}'
    rows = rows_of(grid_of(tmp_path, 'methods = ["rsv+plain"]', "plain"))
    assert figures(make_table(grid_of(tmp_path, f"methods = [{spelt}]"), rows)) == {"spelt": ["50.0 (1)"]}


def test_a_part_with_no_run_of_what_the_whole_shows_shows_its_own(tmp_path: Path) -> None:
    """As of code by which the others were run again, and this method not."""
    grid = grid_of(tmp_path, 'seeds = [0, 1]\nmethods = ["rsv+plain", "crsv+plain", "gbs+plain"]')
    rows = rows_of(grid)
    now = [row for row in rows if row["sampler"] != "rsv"]
    before = [{**row, "code_hash": "older"} for row in rows if row["sampler"] == "rsv"]
    assert figures(make_table(grid, [*before, *now]))["rsv + plain"] == ["-"]
    (part,) = with_methods([grid], ["rsv + plain"])
    table = make_table(part, [*before, *now])
    assert figures(table) == {"rsv + plain": ["50.0 ± 0.0 (2)"]}
    assert not any("not shown" in note for note in table.notes)  # the others were not asked for


def test_a_grid_with_recipes_of_its_methods_own_may_be_run_with_other_epochs(tmp_path: Path) -> None:
    released = '{sampler = "rsv", trainer = "plain", title = "released", recipe = "official"}'
    grid = grid_of(tmp_path, f'methods = ["rsv+plain", {released}]')
    table = make_table(grid, rows_of(grid, by_title(rsv=0.5, released=0.6), {"epochs": 3}))
    assert figures(table) == {"rsv + plain": ["50.0 (1)"], "released": ["60.0 (1)"]}
    assert "3 epochs" in table.blocks[0].heading


def test_a_part_of_a_grid_shows_what_the_whole_shows_there(tmp_path: Path) -> None:
    """Which settings are shown is not decided anew by what is left of the rows."""
    released = '{sampler = "rsv", trainer = "plain", title = "B", recipe = "official"}'
    kept = '{sampler = "crsv", trainer = "plain", title = "C"}'
    a = '{sampler = "rsv", trainer = "plain", title = "A"}'
    grid = grid_of(tmp_path, f"seeds = [0, 1]\nmethods = [{a}, {released}, {kept}]")
    first = [row for row in rows_of(grid, by_title(A=0.5, B=0.6, C=0.7)) if row["seed"] == 0]
    again = rows_of(grid, by_title(A=0.1, B=0.1, C=0.2), {"recipe": "official"})
    rows = [*first, *{row["cell"]: row for row in again}.values()]
    whole = figures(make_table(grid, rows))
    (part,) = with_methods([grid], ["C", "A"])
    assert figures(make_table(part, rows)) == {title: whole[title] for title in ("A", "C")}
    by_itself = dataclasses.replace(part, whole=None)
    assert figures(make_table(by_itself, rows)) != figures(make_table(part, rows))  # else this would show nothing
    (column,) = with_noises([part], ["sym40"])
    assert figures(make_table(column, rows)) == {title: whole[title] for title in ("A", "C")}


@pytest.mark.parametrize(
    ("changes", "heading"),
    [
        ({"options": {"eta": 0.1}}, "eta=0.1"), ({"memory": 40, "epochs": 2}, "memory 40"),
        ({"recipe": "paper"}, "paper"), ({"options": {"crop_padding": 3}}, "crop_padding=3"),
        ({"tell_noise": True}, "told the noise"),
    ],
)  # fmt: skip
def test_what_the_whole_grid_was_run_with_is_found_and_told(
    tmp_path: Path, changes: Mapping[str, Any], heading: str
) -> None:
    """Also an option that one of the methods has of its own (crop_padding): there its own value holds."""
    grid = grid_of(tmp_path, TWO.replace("OPTIONS", "{crop_padding = 4}"))
    table = make_table(grid, rows_of(grid, by_title(rsv=0.9, wide=0.2), changes))
    assert figures(table) == {"rsv + plain": ["90.0 ± 0.0 (2)"], "wide": ["20.0 ± 0.0 (2)"]}
    assert heading in table.blocks[0].heading


def test_data_of_a_users_own_is_known_by_the_name_that_rows_have(tmp_path: Path) -> None:
    grid = grid_of(tmp_path, f'methods = ["rsv+plain"]\ndata = ["{own_data(tmp_path)}"]\ntasks = 2')
    assert figures(make_table(grid, rows_of(grid))) == {"rsv + plain": ["50.0 (1)"]}


# Never two kinds in a cell -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("hashed", [True, False])
def test_what_suits_tiny_images_is_not_the_recipes_value(tmp_path: Path, hashed: bool) -> None:
    grid = grid_of(tmp_path, TWO.replace("OPTIONS", "{crop_padding = 4}"))  # digits have 1, the recipe has 4
    rows = rows_of(grid, by_title(rsv=0.9, wide=0.2))
    table = make_table(grid, rows if hashed else without_hash(rows))
    assert figures(table) == {"rsv + plain": ["90.0 ± 0.0 (2)"], "wide": ["20.0 ± 0.0 (2)"]}


def test_runs_of_another_holdout_never_share_a_mean(tmp_path: Path) -> None:
    text = 'seeds = [0, 1]\nmethods = ["rsv+plain"]\n'
    before, after = grid_of(tmp_path, text), grid_of(tmp_path, text + "holdout = 700", "later")
    rows = [*rows_of(before, lambda cell: 0.9), rows_of(after, lambda cell: 0.2)[0]]
    shown = make_table(before, rows)
    assert figures(shown) == {"rsv + plain": ["90.0 ± 0.0 (2)"]}
    assert "1 digits run is of other code or settings" in shown.notes[-1]
    for asked in (None, Asked({})):
        shown = make_table(after, rows, asked=asked)
        assert figures(shown) == {"rsv + plain": ["20.0 (1)"]}
        assert "2 digits runs are of other code or settings" in shown.notes[-1]


def test_the_table_of_a_grid_that_just_ran_is_of_the_settings_it_ran_with(tmp_path: Path) -> None:
    grid = grid_of(tmp_path, 'seeds = [0, 1]\nmethods = ["rsv+plain"]\n')
    changes = {"options": {"crop_padding": 4}}
    rows = [*rows_of(grid, lambda cell: 0.9), rows_of(grid, lambda cell: 0.2, changes)[0]]
    for asked, entry in ((None, "90.0 ± 0.0 (2)"), (Asked({}), "90.0 ± 0.0 (2)"), (Asked(changes), "20.0 (1)")):
        table = make_table(grid, rows, asked=asked)
        assert figures(table) == {"rsv + plain": [entry]}
        assert "of other code or settings" in table.notes[-1]


def test_runs_that_went_on_under_other_code_count_with_any_code_alone() -> None:
    grid, mixed = (
        find_grid("table1", ["cifar10"]),
        {"code_hash": None, "cell": None, "began_with": {"code_hash": "old"}},
    )
    rows = [row(1, 0.5, **mixed), row(2, 0.5, **mixed), row(3, 0.8)]
    table = make_table(grid, rows)
    assert figures(table)["PuriDivER"][1].startswith("80.0 (1)")
    assert "2 cifar10 runs are of other code or settings" in table.notes[-1]
    assert figures(make_table(grid, rows, any_code=True))["PuriDivER"][1].startswith("60.0 ± 17.3 (3)")


def test_runs_of_other_code_than_asked_for_are_counted_in_a_note() -> None:
    rows = [row(1, 0.9), row(2, 0.9), row(1, 0.5, code_hash="new")]
    table = make_table(find_grid("table1", ["cifar10"]), rows, code="new")
    assert figures(table)["PuriDivER"][1].startswith("50.0 (1)")
    assert "2 cifar10 runs are of other code or settings" in table.notes[-1]


@pytest.mark.parametrize("change", [{"device": "a GPU"}, {"graphs": True}])
def test_runs_on_another_kind_of_device_never_share_a_mean(change: dict[str, Any]) -> None:
    table = make_table(find_grid("table1", ["cifar10"]), [row(1, 0.5), row(2, 0.7), row(3, 0.0, **change)])
    assert figures(table)["PuriDivER"][1].startswith("60.0 ± 14.1 (2)")
    assert "1 cifar10 run is of other code or settings" in table.notes[-1]


def test_without_the_data_rows_of_different_settings_are_still_told_apart(tmp_path: Path) -> None:
    grid = grid_of(tmp_path, 'data = ["elsewhere.npz"]\nnoises = ["sym-40"]\nmethods = ["puridiver+puridiver"]\n')
    rows = [row(seed, 0.5, data="elsewhere", settings_hash="one") for seed in (1, 2)]
    table = make_table(grid, [*rows, row(1, 0.9, data="elsewhere", settings_hash="another")])
    assert figures(table) == {"puridiver + puridiver": ["50.0 ± 0.0 (2)"]}
    assert "1 elsewhere.npz run is of other code or settings" in table.notes[-1]


def test_committed_rows_from_before_the_hash_still_make_tables() -> None:
    results = Path(__file__).parents[2] / "results"
    rows = [json.loads(line) for line in (results / "cifar10.jsonl").read_text().splitlines()]
    table = make_table(find_grid("table1", ["cifar10"]), [row for row in rows if "settings_hash" not in row])
    assert "(3)" in figures(table)["PuriDivER"][1]
    assert "official" in table.blocks[0].heading
    rows = [json.loads(line) for line in (results / "digits.jsonl").read_text().splitlines()]
    entries = figures(make_table(read_grid(results.parent / "scripts" / "digits.toml"), rows))
    assert len(entries) == 10
    assert all(entry.endswith("(5)") for (entry,) in entries.values())


@pytest.mark.usefixtures("quick_diversity")
def test_what_is_only_measured_does_not_change_the_run() -> None:
    """So it is no part of the settings by which runs are told apart."""
    plain = Experiment(RunConfig(**TINY)).run()
    measured = Experiment(RunConfig(**{**TINY, "diversity": True, "evaluate_epochs": True})).run()
    assert plain["settings_hash"] == measured["settings_hash"]
    for name in ("last_accuracy", "class_accuracy", "task_accuracy", "memory_purity", "anytime_area"):
        assert plain[name] == measured[name]


# From the command line ---------------------------------------------------------------------------------------------


def own_data(tmp_path: Path) -> Path:
    train, test = patterns(90, n_classes=3, seed=1), patterns(30, n_classes=3, seed=2)
    arrays = dict(zip(("train_images", "train_labels", "test_images", "test_labels"), (*train, *test), strict=True))
    np.savez(tmp_path / "own.npz", **{name: np.asarray(values) for name, values in arrays.items()})
    return tmp_path / "own.npz"


def test_a_grid_of_published_streams_in_both_orders_fills_its_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_npz(tmp_path / "digits.npz", make_stream(load("digits"), n_tasks=5, noise="sym-40", seed=1))
    # Network and memory are what suits the data, which has to be found for both.
    settings = 'epochs = 1\nseeds = [1]\ndevice = "cpu"\nmethods = ["rsv+plain"]\n'
    grid_of(tmp_path, f'streams = ["official", "official:listed"]\n{settings}')
    words = ["grid", str(tmp_path / "mine.toml"), "--splits", str(tmp_path), "--out", str(tmp_path / "out")]
    assert main([*words, "--engine", "lanes", "--lanes", "1", "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert "official:listed" in printed
    assert "not run" not in printed
    assert main(["table", str(tmp_path / "mine.toml"), str(tmp_path / "out")]) == 0
    assert "not run" not in capsys.readouterr().out


def test_a_grid_prints_a_table_of_what_it_was_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = 'network = "small"\nepochs = 1\nmemory = 20\ntasks = 2\nseeds = [0, 1]\ndevice = "cpu"\n'
    methods = 'methods = ["rsv+plain", "gbs+plain"]\nstreams = ["blurry-10", "disjoint"]\n'
    grid_of(tmp_path, f'data = ["{own_data(tmp_path)}"]\n{settings}{methods}')
    out = str(tmp_path / "out")
    words = ["grid", str(tmp_path / "mine.toml"), "--out", out, "--engine", "lanes", "--lanes", "1", "--quiet"]
    assert main(words) == 0
    whole = capsys.readouterr().out
    assert whole.count("(2)") == 4
    assert "not run" not in whole
    assert main([*words, "--set", "crop_padding=2", "--limit", "1"]) == 0
    one = capsys.readouterr().out
    assert one.count("(1)") == 1
    assert "crop_padding=2" in one
    assert "8 own.npz runs are of other code or settings" in one.replace(str(tmp_path) + "/", "")
    assert main(["table", str(tmp_path / "mine.toml"), out]) == 0
    assert capsys.readouterr().out.count("(2)") == 4
    sizes = {group.label: len(group.runs) for group in grouped(find_runs([Path(out)])[0])}
    assert sorted(sizes.values()) == [1, 2, 2, 2, 2]
    assert sizes["rsv + plain, blurry-10, crop_padding=2"] == 1


def test_a_grid_on_a_folder_of_few_classes_shows_what_it_just_ran(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The number of tasks is the data's own, and how its files are read is among the grid's settings."""
    folder = write_classes(tmp_path / "own", 10)
    (folder / "red" / "torn.png").write_bytes(b"not a picture")
    settings = 'noises = ["none"]\ntest_share = 0.2\nbad_files = "skip"\nnetwork = "small"\nepochs = 1\nmemory = 12\n'
    grid_of(tmp_path, f'data = ["{folder}"]\ndata_root = "{tmp_path}"\n{settings}methods = ["rsv+plain"]\n')
    out = str(tmp_path / "out")
    words = ["grid", str(tmp_path / "mine.toml"), "--out", out, "--engine", "lanes", "--lanes", "1", "--quiet"]
    assert main([*words, "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    assert "3 tasks" in shown
    assert "(1)" in shown
    assert "not run" not in shown
    assert "not shown" not in shown
    assert main(["table", str(tmp_path / "mine.toml"), out]) == 0
    assert capsys.readouterr().out == shown

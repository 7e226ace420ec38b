"""Grids from Python: the runs, rows and folder that the command has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puridiver
from puridiver.cli import main
from puridiver.memory.reservoir import Reservoir
from puridiver.report.titles import read_titles

TINY = {
    "methods": ["rsv+plain", {"sampler": "gbs", "trainer": "plain", "title": "Balanced"}], "seeds": (0, 1),
    "tasks": 2, "memory": 20, "epochs": 1, "stream_limit": 16, "test_limit": 20, "diversity": False, "device": "cpu",
}  # fmt: skip
FILE = """
[grid]
methods = ["rsv+plain", { sampler = "gbs", trainer = "plain", title = "Balanced" }]
seeds = [0, 1]
tasks = 2
memory = 20
epochs = 1
stream_limit = 16
test_limit = 20
diversity = false
device = "cpu"
"""


def kept(folder: Path) -> dict[str, float]:
    rows = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
    return {row["cell"]: row["last_accuracy"] for row in rows}


def told(rows: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(row["sampler"], row["seed"]) for row in rows]


def test_a_grid_from_python_is_that_of_the_command(tmp_path):
    heard: list[dict[str, Any]] = []
    rows = puridiver.run_grid(TINY, tmp_path / "python", engine="lanes", lanes=1, on_row=heard.append)
    assert told(rows) == [("rsv", 0), ("gbs", 0), ("rsv", 1), ("gbs", 1)]
    assert heard == rows
    assert {title.text for title in read_titles(tmp_path / "python").values()} == {"rsv + plain", "Balanced"}
    (tmp_path / "mine.toml").write_text(FILE)
    words = ["grid", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "command"), "--quiet"]
    assert main([*words, "--engine", "lanes", "--lanes", "1"]) == 0
    assert kept(tmp_path / "command") == {row["cell"]: row["last_accuracy"] for row in rows}
    heard.clear()
    found = puridiver.run_grid(tmp_path / "mine.toml", tmp_path / "command", on_row=heard.append)
    assert told(found) == told(rows)
    assert heard == []  # the folder had them all


def test_a_part_of_a_grid_with_other_settings(tmp_path):
    rows = puridiver.run_grid(
        TINY, tmp_path / "a", seeds=[3], methods=["balanced"], engine="lanes", memory=10, options={"batch_size": 8}
    )
    assert told(rows) == [("gbs", 3)]
    assert (rows[0]["memory"], rows[0]["options_changed"]) == (10, {"batch_size": 8, "epochs": 1})
    assert told(puridiver.run_grid(TINY, tmp_path / "b", limit=1, engine="lanes")) == [("rsv", 0)]


@pytest.mark.usefixtures("forgotten_plugins")
def test_what_failed_is_an_error_that_names_it_once_the_others_are_done(tmp_path):
    calls: list[int] = []

    @puridiver.register
    class Fragile(Reservoir):
        name = "fragile"

        def choose(self, *words: Any) -> Any:
            calls.append(1)
            raise RuntimeError("it broke")

    grid = {**TINY, "methods": ["fragile+plain", "rsv+plain"], "seeds": [0]}
    with pytest.raises(
        puridiver.PuridiverError, match=r"1 cell of the grid failed \(.*fragile.*it broke\); 1 are done"
    ):
        puridiver.run_grid(grid, tmp_path, engine="lanes", lanes=1)
    assert len(kept(tmp_path)) == 1
    for retry, times in ((False, 1), (True, 2)):
        with pytest.raises(puridiver.PuridiverError, match="retry_failed=True"):
            puridiver.run_grid(grid, tmp_path, engine="lanes", retry_failed=retry)
        assert len(calls) == times


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"epoch": 3}, "a setting of all cells should be one of data_root, splits, .* or options, but got 'epoch'"),
        ({"limit": 0}, "limit should be at least 1, but got 0"),
        ({"engine": "clouds"}, "engine should be one of auto, lanes, processes, ray, but got 'clouds'"),
        ({"methods": ["none"]}, "there is no method 'none' in the grid"),
        ({"options": {"gcee.q": 0.5}}, "no method or network 'gcee'.*did you mean gce"),
        ({"options": {"gce.q": 0.5}}, "gce.q reaches no method of the grid: none of them is gce"),
        ({"options": {"etta": 0.5}}, "there is no option 'etta'"),
    ],
)
def test_wrong_words_are_refused_and_leave_no_folder(words, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        puridiver.run_grid(TINY, tmp_path / "a", **words)
    assert not (tmp_path / "a").exists()


def test_a_wrong_key_of_a_dictionary_is_named(tmp_path):
    with pytest.raises(puridiver.DataError, match=r"grid: there is no key 'epoch'; the keys are title, data"):
        puridiver.run_grid({**TINY, "epoch": 3}, tmp_path)
    with pytest.raises(puridiver.DataError, match="grid: methods is missing from"):
        puridiver.run_grid({"seeds": [1]}, tmp_path)


def test_one_alone_need_not_be_a_list_and_seeds_may_be_numpys(tmp_path):
    few = {**TINY, "seeds": np.arange(2), "methods": "rsv+plain", "noises": "sym-40"}
    asked = {"data": "digits", "seeds": np.int64(1), "methods": "rsv + plain", "noises": "sym-40"}
    rows = puridiver.run_grid(few, tmp_path, engine="lanes", lanes=1, **asked)
    assert told(rows) == [("rsv", 1)]
    again = puridiver.run_grid(few, tmp_path, engine="lanes", lanes=1, seeds=np.arange(1, 2))
    assert again == rows  # the same cell
    assert told(puridiver.run_grid(few, tmp_path, engine="lanes", lanes=1)) == [("rsv", 0), ("rsv", 1)]


def test_whole_numbers_are_the_floats_that_an_option_takes(tmp_path):
    grid = {**TINY, "methods": [{"sampler": "rsv", "trainer": "gce", "options": {"gce.q": 1}}], "options": {"eta": 2}}
    (row,) = puridiver.run_grid(grid, tmp_path, engine="lanes", seeds=1, options={"cutmix": 1})
    values = [row["options_changed"][name] for name in ("gce.q", "eta", "cutmix")]
    assert (values, {type(value) for value in values}) == ([1.0, 2.0, 1.0], {float})

"""The Ray engine on a local cluster of two workers, of which one is killed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from puridiver.cli import main
from puridiver.grid.folder import GridFolder
from puridiver.grid.runner import Runner
from puridiver.grid.table import FORMATS, make_table
from tests.grid.samples import Killer, lane_engine, planned_cells, small_grid


def test_without_ray_the_engine_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["grid", "table3", "--data", "digits", "--engine", "ray", "--out", str(tmp_path / "out")]) == 2
    assert "pip install 'puridiver[ray]'" in capsys.readouterr().err


@pytest.mark.filterwarnings("default")  # Ray's own warnings are not ours to mend
def test_the_table_is_the_same_when_a_worker_is_killed_in_the_middle(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    from puridiver.grid.engines.ray import RayEngine

    grid = small_grid(seeds=(1, 2, 3))
    planned = planned_cells(grid)
    cluster, alone = GridFolder(tmp_path / "cluster"), GridFolder(tmp_path / "alone")
    for folder in (cluster, alone):
        folder.path.mkdir()
    killer = Killer("started")
    outcome = Runner(cluster, RayEngine(actors=2), killer).run(planned)
    assert killer.victims
    assert [event.kind for event in killer.events].count("lost") == 1
    assert (outcome.finished, outcome.failures, outcome.left) == (6, {}, 0)
    Runner(alone, lane_engine()).run(planned)
    tables = []
    for folder in (cluster, alone):
        rows = [{**row, "shortened": False} for row in folder.rows()]  # made short for the test alone
        tables.append(FORMATS["csv"](make_table(grid, rows)))
        assert {path.name for path in (folder.path / "cells").iterdir()} == {p.folder_name for p in planned}
    assert tables[0] == tables[1]
    for p in planned:
        files, expected = ({path.name for path in folder.cell_folder(p).iterdir()} for folder in (cluster, alone))
        assert files == expected
        assert "memory.safetensors" in files

"""The Ray engine on a local cluster of two workers, of which one is killed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from puridiver.cli import main
from puridiver.grid.engines.base import Event
from puridiver.grid.folder import GridFolder
from puridiver.grid.plan import Planned
from puridiver.grid.runner import Runner
from puridiver.grid.table import FORMATS, make_table
from puridiver.learner import storage
from puridiver.runs import folder as runs
from tests.grid.samples import RSV, Killer, lane_engine, planned_cells, small_grid


def test_without_ray_the_engine_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["grid", "table3", "--data", "digits", "--engine", "ray", "--out", str(tmp_path / "out")]) == 2
    assert "pip install 'puridiver[ray]'" in capsys.readouterr().err


@contextmanager
def no_sign(folder: Path) -> Iterator[Path]:
    """As a worker of another machine finds it."""
    yield folder / "not-there"


@pytest.mark.filterwarnings("default")  # Ray's own warnings are not ours to mend
@pytest.mark.parametrize("shared", [True, False], ids=["shared folder", "nothing shared"])
def test_the_table_is_the_same_when_a_worker_is_killed_in_the_middle(
    shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    from puridiver.grid.engines import ray
    from puridiver.grid.engines.ray import RayEngine

    if not shared:
        monkeypatch.setattr(ray, "left_sign", no_sign)
    grid = small_grid()
    planned = planned_cells(grid)
    cluster, alone = GridFolder(tmp_path / "cluster"), GridFolder(tmp_path / "alone")
    for folder in (cluster, alone):
        folder.path.mkdir()
    killer = Killer("started")
    outcome = Runner(cluster, RayEngine(actors=2), killer).run(planned)
    assert killer.victims
    assert [event.kind for event in killer.events].count("lost") == 1
    assert (outcome.finished, outcome.failures, outcome.left) == (4, {}, 0)
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


class KillerAtACheckpoint(Killer):
    """Lets the first worker it hears of come to a checkpoint in its cell's folder, and kills it then."""

    def __init__(self, folder: GridFolder) -> None:
        super().__init__("started")
        self.folder, self.found = folder, dict[str, Any]()

    def happened(self, event: Event, planned: Planned) -> None:
        if event.kind == "started" and not self.victims:
            checkpoint = self.folder.cell_folder(planned) / runs.CHECKPOINT / "000001"
            deadline = time.monotonic() + 120
            while not (checkpoint / storage.INDEX).exists():
                assert time.monotonic() < deadline, "no checkpoint in the cell's folder"
                time.sleep(0.01)
            self.found = storage.load(checkpoint)[0]
        super().happened(event, planned)


@pytest.mark.filterwarnings("default")
def test_a_cell_goes_on_from_its_checkpoint_when_its_worker_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    from puridiver.grid.engines.ray import SIGN, RayEngine

    monkeypatch.chdir(tmp_path)
    (planned,) = planned_cells(small_grid([RSV], seeds=(1,), epochs=400))
    cluster, alone = GridFolder(Path("cluster")), GridFolder(tmp_path / "alone")  # relative: workers are elsewhere
    for folder in (cluster, alone):
        folder.path.mkdir()
    (cluster.path / "cells").mkdir()
    (cluster.path / "cells" / f"{SIGN}old").touch()  # of a process that was killed
    killer = KillerAtACheckpoint(cluster)
    outcome = Runner(cluster, RayEngine(actors=1), killer).run([planned])
    assert [event.kind for event in killer.events] == ["started", "lost", "started", "finished"]
    assert (outcome.finished, outcome.failures) == (1, {})
    (row,) = cluster.rows()
    assert row["started"] == killer.found["started"]  # a cell that starts anew has a later one
    Runner(alone, lane_engine()).run([planned])
    events = [folder.cell_folder(planned) / runs.METRICS for folder in (cluster, alone)]
    assert events[0].read_bytes() == events[1].read_bytes()
    assert [path.name for path in (cluster.path / "cells").iterdir()] == [planned.folder_name]


def test_the_files_of_a_run_come_back_with_its_plugins_and_the_summary_last(tmp_path: Path) -> None:
    from puridiver.grid.engines import ray

    names = ["plugins/mine.py", "plugins/2/mine.py", "config.json", "manifest.json", "metrics.jsonl", "summary.json"]
    for name in [*names, "checkpoint/state.json"]:
        (tmp_path / "there" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "there" / name).write_text(f"content of {name}")
    files = ray.packed(tmp_path / "there")
    assert sorted(files) == sorted(names)
    assert list(files)[-1] == "summary.json"
    ray.unpack(files, tmp_path / "here")
    assert all((tmp_path / "here" / name).read_text() == f"content of {name}" for name in names)

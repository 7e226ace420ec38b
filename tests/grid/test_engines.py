"""Engines: each gives the same results, and survives what happens to its workers."""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from puridiver.errors import DataError
from puridiver.grid.engines import LaneEngine, ProcessEngine, Result, make_engine
from puridiver.grid.run import GridRun
from puridiver.grid.spec import Method
from puridiver.runs import folder as runs
from puridiver.runtime.device import cores
from tests.grid.samples import RSV, jobs_of, lane_engine, small_grid

FIGURES = ("id", "method", "last_accuracy", "memory_purity")


def figures(run: GridRun) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in FIGURES) for row in run.own_rows()]


def interrupt(name: str, result: Result) -> None:
    raise KeyboardInterrupt


def test_a_killed_worker_is_a_failure_and_the_next_time_its_run_goes_on(tmp_path: Path) -> None:
    run = GridRun([small_grid([RSV], (1,), epochs=50)], tmp_path)
    engine, (job,) = ProcessEngine(1, tmp_path / "logs"), jobs_of(run)
    with ThreadPoolExecutor(1) as thread:
        failures = thread.submit(run.run, engine)
        while not (job.folder / runs.CONFIG).exists():
            time.sleep(0.01)
        (process,) = engine.running
        process.kill()
    assert ["ended with code -9" in failure["error"] for failure in failures.result()] == [True]
    assert not engine.running
    assert run.run(lane_engine()) == []
    assert len(run.own_rows()) == 1


def test_stopped_workers_save_their_runs(tmp_path: Path) -> None:
    (job,) = jobs_of(GridRun([small_grid([RSV], (1,), epochs=100_000)], tmp_path))
    engine = ProcessEngine(1, tmp_path / "logs")
    with ThreadPoolExecutor(1) as thread:
        ended = thread.submit(list, engine.run([job]))
        while not (job.folder / runs.METRICS).exists():
            time.sleep(0.01)
        engine.stopping.set()
        engine.stop()
        assert ended.result() == [(job, {})]
    assert list((job.folder / runs.CHECKPOINT).iterdir())


@pytest.mark.gpu
def test_lanes_on_a_gpu_give_what_one_run_after_the_other_gives(tmp_path: Path) -> None:
    found = []
    for lanes in (1, 4):
        run = GridRun([small_grid(device="cuda", epochs=3)], tmp_path / str(lanes))
        assert run.run(LaneEngine(lanes, torch.device("cuda"))) == []
        found.append(figures(run))
    assert found[0] == found[1]


def test_a_cell_whose_folder_is_in_use_or_damaged_fails_and_nothing_is_lost(tmp_path: Path) -> None:
    (job,) = jobs_of(GridRun([small_grid([RSV], seeds=(1,))], tmp_path))
    with runs.RunFolder(job.folder).held():
        ((_, result),) = lane_engine().run([job])
    assert "busy" in result["error"]
    ((_, result),) = lane_engine().run([job])
    assert "error" not in result
    (job.folder / "summary.json").write_text("{")
    ((_, result),) = lane_engine().run([job])
    assert "summary.json is damaged" in result["error"]
    assert (job.folder / "summary.json").read_text() == "{"


def test_a_worker_that_cannot_start_is_a_failure_that_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("puridiver.grid.engines.__name__", "puridiver.no_such_module")
    jobs = jobs_of(GridRun([small_grid([RSV], seeds=(1,))], tmp_path))
    ((_, result),) = ProcessEngine(1, tmp_path / "logs").run(jobs)
    assert "no_such_module" in result["error"]


def test_an_interrupt_stops_the_other_lanes(tmp_path: Path) -> None:
    quick, slow = (Method(name, "rsv", "plain", {"epochs": n}) for name, n in (("quick", 1), ("slow", 100_000)))
    run = GridRun([small_grid([quick, slow], (1,))], tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run.run(lane_engine(2), on_end=interrupt)
    assert [row["method"] for row in run.own_rows()] == ["quick"]


def test_which_engine_suits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make_engine(device="cpu", logs=tmp_path)
    assert isinstance(engine, ProcessEngine)
    assert engine.workers == cores() <= (os.cpu_count() or 1)
    assert make_engine("lanes", 3, device="cpu").lanes == 3
    with pytest.raises(ValueError, match="engine should be one of"):
        make_engine("threads")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DataError, match=r"pip install 'puridiver\[ray\]'"):
        make_engine("ray")


@pytest.mark.filterwarnings("default")  # Ray's own warnings are not ours to mend
def test_ray_gives_the_same_rows_and_run_folders(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    cluster, alone = (GridRun([small_grid([RSV], seeds=(1,))], tmp_path / name) for name in ("cluster", "alone"))
    assert cluster.run(make_engine("ray")) == []
    ray.shutdown()
    alone.run(lane_engine())
    assert sorted(figures(cluster)) == sorted(figures(alone))
    files = [sorted(str(p.relative_to(r.folder)) for p in r.folder.glob("cells/*/*")) for r in (cluster, alone)]
    assert files[0] == [name for name in files[1] if not name.endswith(".lock")]

"""Engines: each gives the same results, and survives what happens to its workers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

from puridiver.errors import DataError
from puridiver.grid import engines
from puridiver.grid.engines import Engine, Event, Job, LaneEngine, ProcessEngine, Report, Sources, cores, make_engine
from puridiver.grid.run import GridRun
from puridiver.runs import folder as runs
from tests.grid.samples import RSV, jobs_of, lane_engine, small_grid

FIGURES = ("id", "method", "last_accuracy", "memory_purity")


def figures(run: GridRun) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in FIGURES) for row in run.own_rows()]


def events_of(engine: Engine, jobs: list[Job]) -> list[Event]:
    events: list[Event] = []
    engine.run(jobs, events.append)
    return events


class KillsFirst(ProcessEngine):
    """Kills the first process when it reports its start."""

    def _attempt(self, job: Job, report: Report) -> tuple[str, int]:
        def kill(event: Event) -> None:
            report(event)
            (process,) = self.running
            process.kill()

        self.attempts = getattr(self, "attempts", 0) + 1
        return super()._attempt(job, kill if self.attempts == 1 else report)


def test_a_killed_worker_costs_nothing_but_time_and_an_interrupt_ends_all(tmp_path: Path) -> None:
    run, whole = GridRun([small_grid([RSV])], tmp_path / "run"), GridRun([small_grid([RSV], (1,))], tmp_path / "whole")
    engine, events = KillsFirst(1, tmp_path / "logs"), list[Event]()

    def stop_when_finished(event: Event, name: str) -> None:
        events.append(event)
        if event.kind == "finished":
            raise KeyboardInterrupt

    outcome = run.run(engine, on_event=stop_when_finished)
    assert (outcome.finished, outcome.failures, outcome.left, outcome.interrupted) == (1, {}, 1, True)
    (lost,) = (event for event in events if event.kind == "lost")
    assert "ended with code -9" in lost.detail["error"]
    whole.run(lane_engine(2))
    assert figures(run) == figures(whole)
    assert not engine.running


@pytest.mark.gpu
def test_lanes_on_a_gpu_give_what_one_run_after_the_other_gives(tmp_path: Path) -> None:
    found = []
    for lanes in (1, 4):
        run = GridRun([small_grid(device="cuda", epochs=3)], tmp_path / str(lanes))
        assert run.run(LaneEngine(lanes, torch.device("cuda"), Sources())).failures == {}
        found.append(figures(run))
    assert found[0] == found[1]


def test_a_cell_whose_folder_is_in_use_or_damaged_fails_and_nothing_is_lost(tmp_path: Path) -> None:
    (job,) = jobs_of(GridRun([small_grid([RSV], seeds=(1,))], tmp_path))
    with runs.RunFolder(job.folder).held():
        (event,) = events_of(lane_engine(), [job])
    assert event.kind == "failed"
    assert "busy" in event.detail["error"]
    assert events_of(lane_engine(), [job])[-1].kind == "finished"
    (job.folder / "summary.json").write_text("{")
    (event,) = events_of(lane_engine(), [job])
    assert "summary.json is damaged" in event.detail["error"]
    assert (job.folder / "summary.json").read_text() == "{"


def test_a_worker_that_cannot_start_is_a_failure_that_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("puridiver.grid.engines.__name__", "puridiver.no_such_module")
    jobs = jobs_of(GridRun([small_grid([RSV], seeds=(1,))], tmp_path))
    events = events_of(ProcessEngine(1, tmp_path / "logs"), jobs)
    assert [event.kind for event in events] == ["lost", "lost", "failed"]
    assert "no_such_module" in events[-1].detail["error"]


def test_what_stops_the_report_stops_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "SECONDS_BETWEEN_REPORTS", 0.0)
    run = GridRun([small_grid([RSV], epochs=100_000)], tmp_path)

    def stop(event: Event, name: str) -> None:
        if event.kind == "advanced":
            raise KeyboardInterrupt

    outcome = run.run(lane_engine(2), on_event=stop)
    assert (outcome.interrupted, outcome.finished, outcome.left) == (True, 0, 2)


def test_which_engine_suits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make_engine(device="cpu", logs=tmp_path)
    assert isinstance(engine, ProcessEngine)
    assert engine.workers == cores() <= (os.cpu_count() or 1)
    assert make_engine("lanes", 3, device="cpu").lanes == 3
    with pytest.raises(ValueError, match="workers should be at least 1, but got 0"):
        make_engine(workers=0)
    with pytest.raises(ValueError, match="engine should be one of"):
        make_engine("threads")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DataError, match=r"pip install 'puridiver\[ray\]'"):
        make_engine("ray")


@pytest.mark.filterwarnings("default")  # Ray's own warnings are not ours to mend
def test_ray_gives_the_same_rows_and_run_folders(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    cluster, alone = (GridRun([small_grid([RSV], seeds=(1,))], tmp_path / name) for name in ("cluster", "alone"))
    outcome = cluster.run(make_engine("ray"))
    assert (outcome.finished, outcome.failures) == (1, {})
    alone.run(lane_engine())
    assert sorted(figures(cluster)) == sorted(figures(alone))
    files = [sorted(str(p.relative_to(r.folder)) for p in r.folder.glob("cells/*/*")) for r in (cluster, alone)]
    assert files[0] == [name for name in files[1] if not name.endswith(".lock")]

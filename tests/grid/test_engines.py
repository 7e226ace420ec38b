"""Engines: each tells the same results, and survives what happens to its workers."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import types
from pathlib import Path

import pytest
import torch

from puridiver.grid.engines import base
from puridiver.grid.engines.base import Backlog, Job
from puridiver.grid.engines.choose import Wishes, choose_engine
from puridiver.grid.engines.lanes import LaneEngine
from puridiver.grid.engines.processes import ProcessEngine
from puridiver.grid.folder import GridFolder
from puridiver.grid.plan import Planned, Sources
from puridiver.grid.runner import Runner, look
from puridiver.runs import folder as runs
from puridiver.runs.experiment import Experiment
from tests.grid.samples import RSV, Killer, lane_engine, planned_cells, small_grid


def job(planned: Planned, folder: Path) -> Job:
    return Job(planned.key, planned.cell.name, planned.cell.config, folder / planned.folder_name)


def test_a_killed_worker_costs_nothing_but_time(tmp_path: Path) -> None:
    planned = planned_cells(small_grid(seeds=(1,)))
    killed, whole = GridFolder(tmp_path / "killed"), GridFolder(tmp_path / "whole")
    killer = Killer("advanced")
    for folder in (killed, whole):
        folder.path.mkdir()
    outcome = Runner(killed, ProcessEngine(1, tmp_path / "logs"), killer).run(planned)
    assert (outcome.finished, outcome.failures) == (2, {})
    (lost,) = (event for event in killer.events if event.kind == "lost")
    assert f"worker process {killer.victims[0]} was killed by SIGKILL" in lost.detail["error"]
    Runner(whole, lane_engine()).run(planned)
    for name in ("last_accuracy", "memory_purity", "cell"):
        found, expected = ({row["cell"]: row[name] for row in folder.rows()} for folder in (killed, whole))
        assert found == expected


def test_a_cell_waits_for_a_folder_that_is_given_back_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker of a grid that was killed may hold it for a moment when the next grid begins."""
    (planned,) = planned_cells(small_grid((RSV,), seeds=(1,)))
    wanted, told, looked = job(planned, tmp_path), list[base.Event](), list[float]()
    with contextlib.ExitStack() as holder:

        def look_again(seconds: float) -> None:
            looked.append(seconds)
            holder.close()

        holder.enter_context(runs.held(wanted.folder))
        monkeypatch.setattr(base, "time", types.SimpleNamespace(monotonic=time.monotonic, sleep=look_again))
        base.run_job(wanted, Sources().of, told.append)
    assert len(looked) == 1
    assert told[-1].kind == "finished"
    with runs.held(wanted.folder):
        monkeypatch.setattr(base, "SECONDS_FOR_FOLDER", 0.0)
        base.run_job(wanted, Sources().of, told.append)
        assert "another process is still busy with the run in" in told[-1].detail["error"]
        before = list(told)
        base.run_job(wanted, Sources().of, told.append, stopping=lambda: True)
        assert told == before  # it was stopped while it waited, and did not fail


@pytest.mark.gpu
def test_lanes_on_a_gpu_give_what_one_run_after_the_other_gives(tmp_path: Path) -> None:
    planned = planned_cells(small_grid(device="cuda", epochs=3))
    found = []
    for lanes in (1, 4):
        folder = GridFolder(tmp_path / str(lanes))
        folder.path.mkdir()
        outcome = Runner(folder, LaneEngine(lanes, torch.device("cuda"), Sources())).run(planned)
        assert (outcome.finished, outcome.failures) == (4, {})
        found.append({row["cell"]: (row["last_accuracy"], row["memory_purity"]) for row in folder.rows()})
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("summary.json", '{"cell": "of other code"}'),
        ("summary.json", "[]"),
        ("summary.json", "{"),
        ("config.json", "{"),
        ("checkpoint/000003/state.json", "{"),
    ],
)
def test_a_cell_whose_folder_cannot_be_used_starts_afresh_and_nothing_is_lost(
    name: str, content: str, tmp_path: Path
) -> None:
    (planned, _) = planned_cells(small_grid(seeds=(1,)))
    folder = GridFolder(tmp_path)
    held = folder.cell_folder(planned) / name
    held.parent.mkdir(parents=True)
    held.write_text(content)
    if name != "config.json":
        Experiment(planned.cell.config).run(tmp_path / "other")
        (folder.cell_folder(planned) / "config.json").write_bytes((tmp_path / "other/config.json").read_bytes())
    outcome = Runner(folder, lane_engine()).run([planned])
    assert (outcome.finished, outcome.failures) == (1, {})
    (aside,) = (tmp_path / "cells").glob("*.aside-1")
    assert (aside / name).read_text() == content
    assert json.loads((folder.cell_folder(planned) / "summary.json").read_text())["cell"] == planned.key


def test_a_cell_in_use_elsewhere_is_left_alone_and_tried_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("puridiver.grid.engines.base.SECONDS_FOR_FOLDER", 1.0)
    (planned, _) = planned_cells(small_grid(seeds=(1,)))
    folder = GridFolder(tmp_path)
    with runs.held(folder.cell_folder(planned)):
        outcome = Runner(folder, lane_engine()).run([planned])
    assert "still busy" in outcome.failures[planned.key]["error"]
    assert [path.name for path in (tmp_path / "cells").iterdir()] == [planned.folder_name]
    assert look([planned], folder, any_code=False, retry_failed=False).waiting == [planned]


def test_a_cell_whose_workers_always_die_is_given_up_after_two_retries() -> None:
    (planned, _) = planned_cells(small_grid(seeds=(1,)))
    backlog = Backlog([job(planned, Path())])
    kinds = []
    while backlog.waiting:
        kinds.append(backlog.lost(backlog.waiting.popleft(), "it was killed by SIGKILL"))
    assert [event.kind for event in kinds] == ["lost", "lost", "failed"]
    assert kinds[-1].detail["error"] == "its worker died 3 times; the last time: it was killed by SIGKILL"


def test_a_worker_that_cannot_start_is_a_failure_that_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("puridiver.grid.engines.processes.MODULE", "puridiver.no_such_module")
    (planned, _) = planned_cells(small_grid(seeds=(1,)))
    events = list(ProcessEngine(1, tmp_path / "logs").events([job(planned, tmp_path)]))
    assert [event.kind for event in events] == ["lost", "lost", "failed"]
    assert "No module named puridiver.no_such_module" in events[-1].detail["error"]


def test_closing_the_events_stops_the_workers(tmp_path: Path) -> None:
    (planned, _) = planned_cells(small_grid(seeds=(1,), epochs=100_000))
    engine = ProcessEngine(1, tmp_path / "logs")
    events = engine.events([job(planned, tmp_path)])
    worker = next(events).detail["worker"]
    events.close()
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def test_lanes_stop_in_the_middle_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "SECONDS_BETWEEN_NEWS", 0.0)
    planned = planned_cells(small_grid(epochs=100_000))
    engine = lane_engine(2)
    events = engine.events([job(p, tmp_path) for p in planned])
    seen = [next(events) for _ in range(6)]
    assert {event.kind for event in seen} == {"started", "advanced"}
    before = time.monotonic()
    events.close()
    assert time.monotonic() - before < 20
    assert not [thread for thread in threading.enumerate() if thread.name == "grid lanes"]


def test_a_drained_engine_finishes_what_runs_and_starts_nothing(tmp_path: Path) -> None:
    planned = planned_cells(small_grid([RSV], seeds=(1, 2, 3)))
    engine, ended = lane_engine(), []
    for event in engine.events([job(p, tmp_path) for p in planned]):
        engine.drain()
        ended += [event.key] * (event.kind == "finished")
    assert len(ended) < len(planned)
    assert set(ended) <= {planned[0].key, planned[1].key}


def test_lanes_put_their_number_into_the_rows(tmp_path: Path) -> None:
    folder = GridFolder(tmp_path)
    Runner(folder, lane_engine(2)).run(planned_cells(small_grid(seeds=(1,))))
    assert [row["lanes"] for row in folder.rows()] == [2, 2]


def test_auto_takes_processes_on_a_cpu(tmp_path: Path) -> None:
    engine = choose_engine(Wishes(device="cpu"), 100, tmp_path, Sources())
    assert isinstance(engine, ProcessEngine)
    assert engine.workers * engine.threads <= os.cpu_count()
    lanes = choose_engine(Wishes("lanes", lanes=3, device="cpu"), 100, tmp_path, Sources())
    assert isinstance(lanes, LaneEngine)
    assert lanes.workers == 3
    with pytest.raises(ValueError, match="processes should be at least 1, but got 0"):
        choose_engine(Wishes(processes=0), 1, tmp_path, Sources())

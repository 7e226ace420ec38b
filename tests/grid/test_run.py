"""Running grids: what the ledger has is not run again, runs are shared, and failures cost nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from puridiver import run_grid
from puridiver.errors import DataError, PuridiverError
from puridiver.files import file_lock
from puridiver.grid.engines import Job, Result
from puridiver.grid.run import LOCK, GridRun
from puridiver.grid.spec import Method
from tests.grid.samples import GBS, RSV, TINY, ScriptedEngine, finished, ledger_of, small_grid

TABLE = {"methods": ["rsv+plain", "gbs+plain"], "seeds": (1, 2), **TINY}


def read(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in ledger_of(folder).read_text().splitlines()]


def test_a_grid_goes_on_where_it_stopped(tmp_path: Path) -> None:
    run = GridRun([small_grid()], tmp_path)
    first, second = ScriptedEngine(finished), ScriptedEngine(finished)
    assert run.run(first, limit=1) == []
    assert len(run.waiting()) == 3
    assert run.run(second) == []
    assert len({job.id for job in (*first.jobs, *second.jobs)}) == 4
    assert [(row["method"], row["seed"]) for row in run.own_rows()] == [("RSV", 1), ("GBS", 1), ("RSV", 2), ("GBS", 2)]
    assert run.run(third := ScriptedEngine(finished)) == third.jobs == []


def test_a_run_that_two_grids_share_is_run_once_and_has_a_row_for_each(tmp_path: Path) -> None:
    one, other = small_grid([RSV]), small_grid([GBS, Method("reservoir", "rsv", "plain")])
    for grids in ([one], [one, other]):
        GridRun(grids, tmp_path).run(engine := ScriptedEngine(finished))
        assert len(engine.jobs) == 2
    rows = read(tmp_path)
    assert len(rows) == 6
    shared = [row for row in rows if row["method"] in ("RSV", "reservoir") and row["seed"] == 1]
    assert len(shared) == 2
    assert len({row["id"] for row in shared}) == 1


def test_a_failure_is_recorded_and_tried_again_the_next_time(tmp_path: Path) -> None:
    def fail_gbs(job: Job) -> Result:
        if job.config.sampler == "rsv":
            return finished(job)
        return {"error": "ValueError: no", "traceback": "Traceback ..."}

    run = GridRun([small_grid()], tmp_path)
    assert len(run.run(ScriptedEngine(fail_gbs))) == len(run.own_rows()) == 2
    (entry, _) = (json.loads(line) for line in (tmp_path / "failures.jsonl").read_text().splitlines())
    assert {entry[name] for name in ("method", "error", "traceback")} == {"GBS", "ValueError: no", "Traceback ..."}
    assert len(run.waiting()) == 2


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    run = GridRun([small_grid([RSV])], tmp_path)
    with file_lock(tmp_path / LOCK), pytest.raises(DataError, match="busy with the grid"):
        run.run(ScriptedEngine(finished))


def test_a_program_runs_a_grid_and_gets_its_rows(tmp_path: Path) -> None:
    told: list[dict[str, object]] = []
    rows = run_grid(TABLE, tmp_path, seeds=[1], engine="lanes", workers=1, on_row=told.append, memory=15)
    assert [(row["method"], row["seed"], row["memory"]) for row in rows] == [
        ("rsv + plain", 1, 15),
        ("gbs + plain", 1, 15),
    ]
    assert [row["last_accuracy"] for row in told] == [row["last_accuracy"] for row in rows]
    assert run_grid(TABLE, tmp_path, seeds=[1], engine="lanes", memory=15) == rows == read(tmp_path)


def test_a_program_is_told_what_failed_once_the_rest_is_done(tmp_path: Path) -> None:
    with pytest.raises(PuridiverError, match=r"1 run of the grid failed \(rsv \+ plain, digits.*holdout"):
        run_grid({**TABLE, "methods": ["rsv+plain"], "evaluate_on": "validation"}, tmp_path, seeds=[1], engine="lanes")
    with pytest.raises(ValueError, match="but got 'sampler'"):
        run_grid(TABLE, tmp_path, sampler="rsv")

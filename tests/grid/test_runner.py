"""What a grid does with results, failures, a full disk and Ctrl-C."""

from __future__ import annotations

import dataclasses
import errno
import json
from pathlib import Path
from typing import Any

import pytest

from puridiver.grid.engines.base import Event, described
from puridiver.grid.folder import GridFolder
from puridiver.grid.plan import Planned, estimated_seconds
from puridiver.grid.runner import Runner, adopt, look
from tests.grid.samples import RSV, ScriptedEngine, lane_engine, planned_cells, result, small_grid


@pytest.fixture
def planned() -> list[Planned]:
    return planned_cells(small_grid())


@pytest.fixture
def folder(tmp_path: Path) -> GridFolder:
    return GridFolder(tmp_path)


def failure(planned: Planned, number: int | None = None) -> Event:
    return Event("failed", planned.key, {"error": "ValueError: no", "traceback": "Traceback ...", "errno": number})


def waiting(planned: list[Planned], folder: GridFolder, **flags: bool) -> list[Planned]:
    return look(planned, folder, flags.get("any_code", False), flags.get("retry_failed", False)).waiting


def test_what_the_ledger_has_is_not_run_again(planned: list[Planned], folder: GridFolder) -> None:
    assert waiting(planned, folder) == planned
    outcome = Runner(folder, lane_engine()).run(planned[:3])
    assert (outcome.finished, outcome.left, outcome.failures) == (3, 0, {})
    assert waiting(planned, folder) == planned[3:]
    assert {row["cell"] for row in folder.rows()} == {p.key for p in planned[:3]}
    for p in planned[:3]:
        summary = json.loads((folder.cell_folder(p) / "summary.json").read_text())
        assert summary["cell"] == p.key


def test_runs_of_other_code_do_not_count_unless_asked_for(
    planned: list[Planned], folder: GridFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    Runner(folder, ScriptedEngine([result(p) for p in planned])).run(planned)
    assert waiting(planned, folder) == []
    monkeypatch.setattr("puridiver.runs.provenance.code_hash", lambda: "an edit later")
    later = planned_cells(small_grid())
    assert waiting(later, folder) == later
    assert waiting(later, folder, any_code=True) == []
    other_settings = planned_cells(small_grid(epochs=2))
    assert waiting(other_settings, folder, any_code=True) == other_settings


def test_a_failing_cell_is_recorded_and_the_others_finish(
    planned: list[Planned], folder: GridFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from puridiver.memory.greedy_balanced import GreedyBalanced

    def broken(*args: Any) -> None:
        raise RuntimeError("this sampler is broken")

    monkeypatch.setattr(GreedyBalanced, "choose", broken)
    outcome = Runner(folder, lane_engine()).run(planned)
    good = [p for p in planned if p.cell.method == RSV]
    assert outcome.finished == len(good) == 2
    assert {entry["name"] for entry in outcome.failures.values()} == {p.cell.name for p in planned if p not in good}
    for entry in folder.failures():
        assert "this sampler is broken" in entry["error"]
        assert "Traceback" in entry["traceback"]
        assert "broken" in entry["traceback"]
    assert waiting(planned, folder) == []
    assert len(waiting(planned, folder, retry_failed=True)) == 2
    monkeypatch.undo()
    again = Runner(folder, lane_engine()).run(waiting(planned, folder, retry_failed=True))
    assert (again.finished, again.failures) == (2, {})
    assert len(folder.rows()) == 4


def test_a_full_disk_starts_no_more_cells_and_the_same_grid_goes_on_later(
    planned: list[Planned], folder: GridFolder
) -> None:
    engine = ScriptedEngine([result(planned[0]), failure(planned[1], errno.ENOSPC), result(planned[2])])
    outcome = Runner(folder, engine).run(planned)
    assert outcome.disk_full
    assert engine.draining
    assert (outcome.finished, outcome.left) == (1, 2)
    assert waiting(planned, folder) == planned[1:]


def test_a_full_disk_is_known_also_behind_another_error(planned: list[Planned], folder: GridFolder) -> None:
    try:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as error:
            raise ValueError("the checkpoint was not written") from error
    except ValueError as error:
        told = described(error)
    outcome = Runner(folder, ScriptedEngine([Event("failed", planned[0].key, told)])).run(planned)
    assert outcome.disk_full


def test_a_result_that_does_not_fit_on_the_disk_is_not_lost(
    planned: list[Planned], folder: GridFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(row: dict[str, Any]) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(folder, "record", full)
    outcome = Runner(folder, lane_engine()).run(planned[:1])
    assert outcome.disk_full
    assert outcome.finished == 0
    monkeypatch.undo()
    assert adopt(planned, folder) == 1
    assert waiting(planned, folder) == planned[1:]
    assert adopt(planned, folder) == 0


def test_an_interrupt_keeps_what_is_finished_and_stops_the_engine(planned: list[Planned], folder: GridFolder) -> None:
    engine = ScriptedEngine([result(planned[0]), KeyboardInterrupt])
    outcome = Runner(folder, engine).run(planned)
    assert outcome.interrupted
    assert engine.closed
    assert (outcome.finished, outcome.left) == (1, 3)
    assert waiting(planned, folder) == planned[1:]


def test_a_row_of_something_else_than_was_planned_is_refused(planned: list[Planned], folder: GridFolder) -> None:
    done = result(planned[0])
    other = dataclasses.replace(done, detail={**done.detail, "cell": "other", "code_hash": "other"})
    outcome = Runner(folder, ScriptedEngine([other])).run(planned[:1])
    assert folder.rows() == []
    assert "its code_hash differs" in outcome.failures[planned[0].key]["error"]
    assert waiting(planned[:1], folder) == planned[:1]


def test_time_is_estimated_from_runs_of_the_same_method(planned: list[Planned]) -> None:
    digits = {"data": "digits", "trainer": "plain", "shortened": False}
    rows = [
        {**digits, "sampler": "rsv", "seconds": 10.0}, {**digits, "sampler": "rsv", "seconds": 20.0},
        {**digits, "sampler": "gbs", "seconds": 30.0},
    ]  # fmt: skip
    # Two RSV cells of 15 s each and two GBS cells of 30 s each, on two workers.
    assert estimated_seconds(planned, rows, 2) == pytest.approx((15 + 15 + 30 + 30) / 2)
    assert estimated_seconds(planned, [], 2) is None
    assert estimated_seconds([], [], 2) == 0

"""Scalars for TensorBoard: a listener of the run's events."""

from __future__ import annotations

import sys

import pytest

from puridiver.errors import DataError
from puridiver.runs.tensorboard import tensorboard_log
from tests.runs.samples import Leaving, events_of, experiment, tiny_config


def test_scalars_are_the_events_of_the_run_also_after_a_resume(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for leaving in (Leaving(4), Leaving(3), Leaving()):
        with tensorboard_log(tmp_path / "log") as log:
            part = leaving.run = experiment(tiny_config(evaluate_epochs=True), leaving)
            part.listeners.append(log)
            if leaving.moves is None:
                part.run(tmp_path / "run", resume=True)
            else:
                with pytest.raises(KeyboardInterrupt):
                    part.run(tmp_path / "run", resume=True)
    found = accumulator.EventAccumulator(str(tmp_path / "log")).Reload()
    events = events_of(tmp_path / "run")
    for group, kind, step in (
        ("stream", "anytime", "seen"),
        ("task", "task", "seen"),
        ("memory epoch", "epoch", "number"),
    ):
        expected = [(e[step], pytest.approx(e["accuracy"])) for e in events if e["event"] == kind and "accuracy" in e]
        assert [(s.step, s.value) for s in found.Scalars(f"{group}/accuracy")] == expected
    assert [s.step for s in found.Scalars("memory epoch/clean_size")] == [1, 2, 3, 4, 5, 6]
    assert not any("losses" in tag for tag in found.Tags()["scalars"])


def test_what_is_in_the_way_is_told_before_the_work(tmp_path, monkeypatch):
    pytest.importorskip("tensorboard")
    (tmp_path / "log").write_text("")
    with pytest.raises(DataError, match="is a file"), tensorboard_log(tmp_path / "log"):
        pass
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(DataError, match="pip install"), tensorboard_log(tmp_path / "log"):
        pass

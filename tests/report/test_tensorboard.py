from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import pytest

from puridiver.cli import main
from puridiver.report.tensorboard import tensorboard_logs
from puridiver.runs.experiment import Experiment
from tests.resume_samples import experiment, tiny_config

TINY = ["--epochs", "2", "--stream-limit", "32", "--test-limit", "40", "--no-diversity", "--quiet", "--tasks", "2"]


def test_scalars_are_the_events_of_the_run(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    log, out = tmp_path / "log", tmp_path / "run"
    assert main(["run", *TINY, "--tensorboard", str(log), "--out", str(out)]) == 0
    events = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    found = accumulator.EventAccumulator(str(log)).Reload()
    for group, kind in (("stream", "anytime"), ("task", "task")):
        expected = [(e["seen"], pytest.approx(e["accuracy"])) for e in events if e["event"] == kind]
        assert [(s.step, s.value) for s in found.Scalars(f"{group}/accuracy")] == expected
    sizes = [(2 * e["task"] + e["epoch"] + 1, e["clean_size"]) for e in events if e["event"] == "epoch"]
    assert [(s.step, s.value) for s in found.Scalars("memory epoch/clean_size")] == sizes
    assert not any("losses" in tag for tag in found.Tags()["scalars"])


def test_steps_have_no_gap_where_tasks_are_too_short_for_all_trainings(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    words = ["--set", "consolidations=9", "--set", "batch_size=16"]  # tasks of two batches, each of two epochs
    assert main(["run", *TINY, *words, "--tensorboard", str(tmp_path / "log")]) == 0
    found = accumulator.EventAccumulator(str(tmp_path / "log")).Reload()
    assert [s.step for s in found.Scalars("memory epoch/clean_size")] == list(range(1, 9))
    assert "2 x 2 memory epochs a task" in capsys.readouterr().out


def test_after_a_resume_the_steps_go_on_where_they_were(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    config = tiny_config(evaluate_epochs=True)  # two tasks of three epochs
    stops = [2, 2, 100]  # epochs after which the run is left, and at last not
    for stop in stops:
        with tensorboard_logs(str(tmp_path / "log")) as (log,):
            part = experiment(config)
            heard = []

            def leave(event: dict, part: Experiment = part, heard: list = heard, stop: int = stop) -> None:
                heard.append(event["event"])
                if heard.count("epoch") == stop:
                    part.stop()

            part.listeners += [log.listener([part.options.epochs] * 2), leave]
            with pytest.raises(KeyboardInterrupt) if stop < 6 else contextlib.nullcontext():
                part.run(tmp_path / "run", resume=True)
    found = accumulator.EventAccumulator(str(tmp_path / "log")).Reload()
    events = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    epochs = [e for e in events if e["event"] == "epoch"]
    assert [e["task"] for e in epochs if "accuracy" in e] == [1, 1, 1]  # of the last task alone
    expected = [(e["epoch"] + 4, pytest.approx(e["accuracy"])) for e in epochs if "accuracy" in e]
    assert [(s.step, s.value) for s in found.Scalars("memory epoch/accuracy")] == expected
    assert [s.step for s in found.Scalars("memory epoch/clean_size")] == [1, 2, 3, 4, 5, 6]
    seen = [e["seen"] for e in events if e["event"] == "anytime"]
    assert [s.step for s in found.Scalars("stream/accuracy")] == seen


def test_without_the_library_it_says_so_before_the_work(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    monkeypatch.setattr("puridiver.runs.experiment.Experiment", lambda *a: pytest.fail("the work had begun"))
    assert main(["run", *TINY, "--tensorboard", str(tmp_path / "log")]) == 2
    assert "pip install 'puridiver[tensorboard]'" in capsys.readouterr().err


def test_a_file_in_the_way_is_named(tmp_path: Path, capsys) -> None:
    pytest.importorskip("tensorboard")
    (tmp_path / "log").write_text("")
    assert main(["run", *TINY, "--tensorboard", str(tmp_path / "log")]) == 2
    assert "is a file; name a folder" in capsys.readouterr().err


def test_a_run_that_cannot_start_leaves_no_folder(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    assert main(["run", *TINY, "--noise", "sym-140", "--tensorboard", str(tmp_path / "log")]) == 2
    assert not (tmp_path / "log").exists()

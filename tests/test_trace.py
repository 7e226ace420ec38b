"""Traced runs: what became of each sample of the memory, against what can be seen from outside."""

from __future__ import annotations

import csv
import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import puridiver
from puridiver import DataError, Experiment, Learner, RunConfig
from puridiver.cli import main
from puridiver.learner import storage
from puridiver.runs.checkpoint import Checkpoints
from puridiver.trainers import SET_NAMES

CONFIG: dict[str, Any] = {
    "tasks": 2, "memory": 30, "network": "small", "device": "cpu", "epochs": 2, "stream_limit": 80, "test_limit": 40,
    "diversity": False, "anytime_points": 1, "options": {"warmup_epochs": 0},
}  # fmt: skip
TINY = (
    "--tasks", "2", "--memory", "20", "--device", "cpu", "--epochs", "1", "--stream-limit", "32", "--test-limit", "50",
    "--no-diversity", "--quiet",
)  # fmt: skip


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, list[int]]]:
    """What is in the memory after each batch: (samples seen, arrivals)."""
    found: list[tuple[int, list[int]]] = []
    observe = Learner.observe

    def watched(self: Learner, *batch: Any) -> range:
        arrivals = observe(self, *batch)
        found.append((self.seen, self.memory.samples.arrivals.tolist()))
        return arrivals

    monkeypatch.setattr(Learner, "observe", watched)
    return found


def test_the_trace_tells_when_each_sample_came_and_went(tmp_path: Path, held: list[tuple[int, list[int]]]) -> None:
    experiment = Experiment(RunConfig(**CONFIG))
    experiment.run(trace=tmp_path / "trace.csv")
    rows = rows_of(tmp_path / "trace.csv")
    assert {int(row["arrival"]) for row in rows} == {arrival for _, memory in held for arrival in memory}
    for row in rows:
        there = [seen for seen, memory in held if int(row["arrival"]) in memory]
        gone = [seen for seen, memory in held if seen > there[-1]]
        assert int(row["entered_at"]) == there[0]
        assert row["evicted_at"] == (str(gone[0]) if gone else "")
    assert any(row["evicted_at"] for row in rows)


def test_the_trace_has_the_labels_and_what_each_consolidation_made_of_them(tmp_path: Path) -> None:
    experiment = Experiment(RunConfig(**CONFIG))
    experiment.run(trace=tmp_path / "trace.csv")
    rows = rows_of(tmp_path / "trace.csv")
    manifest, true = experiment.manifest, experiment.source.train.true_labels
    position = [*range(80), *range(manifest.task_ends[0], manifest.task_ends[0] + 80)]  # of a shortened stream
    for row in rows:
        at = position[int(row["arrival"])]
        assert int(row["image"]) == manifest.order[at]
        assert row["given_label"] == str(manifest.labels[at])
        assert row["true_label"] == str(int(true[manifest.order[at]]))
    last = experiment.learner.trainer.sets
    assert last is not None
    kept = {int(row["arrival"]): row for row in rows if not row["evicted_at"]}
    assert sorted(kept) == sorted(last.arrivals.tolist())
    for arrival, code, guess in zip(last.arrivals.tolist(), last.codes.tolist(), last.guesses.tolist(), strict=True):
        row = kept[arrival]
        assert row["set_2"] == SET_NAMES[code]
        assert row["suggested_2"] == (row["given_label"] if code == 0 else str(guess))
    assert "set_3" not in rows[0]


def test_samples_that_waited_enter_as_the_consolidation_begins(tmp_path: Path) -> None:
    options = {**CONFIG["options"], "spr_budget": 0.0005, "spr_graphs": 1}
    changed = {"options": options, "sampler": "spr", "trainer": "spr", "memory": 200}  # the delay buffer is never full
    experiment = Experiment(RunConfig(**{**CONFIG, **changed}))
    experiment.run(trace=tmp_path / "trace.csv")
    rows = rows_of(tmp_path / "trace.csv")
    kept = [int(row["arrival"]) for row in rows if not row["evicted_at"]]
    assert sorted(kept) == sorted(experiment.learner.memory.samples.arrivals.tolist())
    assert {int(row["entered_at"]) for row in rows} == {80}  # where the first task ends


def test_a_trainer_that_does_not_divide_the_memory_has_no_sets(tmp_path: Path) -> None:
    Experiment(RunConfig(**CONFIG, sampler="rsv", trainer="plain")).run(trace=tmp_path / "trace.csv")
    assert list(rows_of(tmp_path / "trace.csv")[0]) == [
        "arrival", "image", "given_label", "true_label", "entered_at", "evicted_at",
    ]  # fmt: skip


def test_a_trace_changes_nothing_else_and_is_off_unless_asked_for(tmp_path: Path) -> None:
    figures, kinds = [], []
    for trace in (None, tmp_path / "trace.csv"):
        events: list[dict[str, Any]] = []
        experiment = Experiment(RunConfig(**CONFIG))
        experiment.listeners.append(events.append)
        summary = experiment.run(trace=trace)
        figures.append([summary[name] for name in ("last_accuracy", "anytime_area", "memory_purity", "cell")])
        kinds.append({event["event"] for event in events})
    assert figures[0] == figures[1]
    assert kinds[0] == {"anytime", "epoch", "task", "split"}
    assert kinds[1] == kinds[0] | {"memory", "sets"}


def interrupted(folder: Path, at: int, **settings: Any) -> None:
    """A run that is stopped at its so many-th event."""
    experiment, events = Experiment(RunConfig(**CONFIG)), list[dict[str, Any]]()

    def listen(event: dict[str, Any]) -> None:
        events.append(event)
        if len(events) == at:
            experiment.stop()

    experiment.listeners.append(listen)
    with pytest.raises(KeyboardInterrupt):
        experiment.run(folder, **settings)


@pytest.mark.parametrize("at", [3, 9])
@pytest.mark.parametrize("said_again", [True, False])
def test_a_run_that_was_left_goes_on_with_its_trace(at: int, said_again: bool, tmp_path: Path) -> None:
    whole, run = tmp_path / "whole.csv", tmp_path / "run"
    Experiment(RunConfig(**CONFIG)).run(trace=whole)
    interrupted(run, at, trace=tmp_path / "trace.csv")
    assert not (tmp_path / "trace.csv").exists()
    Experiment(RunConfig(**CONFIG)).run(run, resume=True, trace=tmp_path / "trace.csv" if said_again else None)
    if not said_again:  # the finished run still knows
        Experiment(RunConfig(**CONFIG)).run(run, resume=True, trace=tmp_path / "trace.csv")
    assert (tmp_path / "trace.csv").read_text() == whole.read_text()


def test_a_finished_run_whose_learner_could_not_be_kept_gets_it_later_with_its_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, whole, later = tmp_path / "run", tmp_path / "whole.csv", tmp_path / "later.csv"
    asked, write = list[Any](), Checkpoints._try_to_write

    def full(folder: Path, *state: Any) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device", str(folder))

    def only_the_first(self: Checkpoints, frozen: Any) -> bool:
        asked.append(frozen)
        return len(asked) == 1 and write(self, frozen)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "save", full)
        patch.setattr(Checkpoints, "_try_to_write", only_the_first)
        experiment = Experiment(RunConfig(**CONFIG))
        experiment.run(run, keep_learner=True, trace=whole)
    assert experiment.learner_lost
    assert len(asked) > 1
    Experiment(RunConfig(**CONFIG)).run(run, resume=True, keep_learner=True, trace=later)
    assert (run / "learner" / storage.INDEX).exists()
    assert later.read_text() == whole.read_text()


def test_a_run_that_was_begun_without_a_trace_cannot_get_one_later(tmp_path: Path) -> None:
    interrupted(tmp_path / "run", 5)
    with pytest.raises(DataError, match=r"was begun without --trace.*--force runs it anew"):
        Experiment(RunConfig(**CONFIG)).run(tmp_path / "run", resume=True, trace=tmp_path / "trace.csv")
    Experiment(RunConfig(**CONFIG)).run(tmp_path / "run", resume=True)


def test_read_run_gives_tables_that_agree_with_the_files(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    Experiment(RunConfig(**CONFIG)).run(tmp_path / "run", trace=tmp_path / "trace.csv")
    found = puridiver.read_run(tmp_path / "run")
    events = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    ended = [event for event in events if event["event"] == "task"]
    of_tasks = found.metrics[found.metrics.event == "task"]
    assert of_tasks.accuracy.tolist() == [event["accuracy"] for event in ended] == found.summary["task_accuracy"]
    assert of_tasks.seen.tolist() == [80, 160]
    last = found.splits[found.splits.task == 1]
    assert len(last) == ended[-1]["memory_size"]
    assert (last.right == 1).mean() == pytest.approx(found.summary["memory_purity"])
    assert found.trace is not None
    assert found.trace.to_csv(index=False) == (tmp_path / "trace.csv").read_text()
    assert sorted(found.trace.arrival[found.trace.evicted_at.isna()]) == sorted(last.arrival)


def test_the_example_runs(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    example = Path(__file__).parent.parent / "examples" / "sample_history.py"
    words = [sys.executable, str(example), str(tmp_path / "run"), "--epochs", "1"]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    assert "of wrong labels" in done.stdout
    assert len(rows_of(tmp_path / "run" / "samples.csv")) > 100


def test_a_run_without_a_trace_has_none_and_one_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    Experiment(RunConfig(**CONFIG)).run(tmp_path / "run")
    assert puridiver.read_run(str(tmp_path / "run")).trace is None
    with pytest.raises(DataError, match="does not exist"):
        puridiver.read_run(tmp_path / "nowhere")


def test_without_pandas_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(DataError, match=r"this needs pandas: pip install 'puridiver\[frames\]'"):
        puridiver.read_run(tmp_path)


def test_on_the_command_line_as_csv_and_as_parquet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    run, as_csv, as_parquet = (str(tmp_path / name) for name in ("run", "a.csv", "b.parquet"))
    assert main(["run", *TINY, "--out", run, "--trace", as_csv]) == 0
    assert main(["run", "--out", run, "--resume", "--trace", as_parquet]) == 0
    table = parquet.read_table(as_parquet).to_pylist()
    texts = [{name: "" if value is None else str(value) for name, value in row.items()} for row in table]
    assert texts == rows_of(Path(as_csv))
    assert main(["report", run, "--out", str(tmp_path / "page.html")]) == 0
    capsys.readouterr()
    assert main(["run", *TINY, "--trace", as_csv]) == 2
    assert "is already there: add --force" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "message"), [("trace.txt", "should be a .csv or .parquet file"), ("folder.csv", "is a folder")]
)
def test_files_that_cannot_be_are_refused_before_the_work(
    name: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder.csv").mkdir()
    assert main(["run", *TINY, "--trace", str(tmp_path / name)]) == 2
    assert message in capsys.readouterr().err


def test_parquet_without_pyarrow_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert main(["run", *TINY, "--trace", str(tmp_path / "trace.parquet")]) == 2
    assert "needs pyarrow: pip install 'puridiver[parquet]', or say .csv" in capsys.readouterr().err

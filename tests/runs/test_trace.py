"""Traced runs: what became of each sample of the memory, against what can be seen from outside."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from puridiver import DataError, Learner
from puridiver.trainers import SET_NAMES
from tests.runs.samples import Leaving, experiment, finish, leg, tiny_config


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


def test_the_trace_says_when_each_sample_came_and_went_and_what_became_of_it(tmp_path, monkeypatch):
    held: list[tuple[int, list[int]]] = []  # what is in the memory after each batch
    observe = Learner.observe

    def watched(self: Learner, *batch: Any) -> Any:
        arrivals = observe(self, *batch)
        held.append((self.seen, self.memory.samples.arrivals.tolist()))
        return arrivals

    monkeypatch.setattr(Learner, "observe", watched)
    run = experiment(tiny_config())
    run.run(trace=tmp_path / "trace.csv")
    rows = rows_of(tmp_path / "trace.csv")
    assert {int(row["arrival"]) for row in rows} == {arrival for _, memory in held for arrival in memory}
    assert any(row["evicted_at"] for row in rows)
    manifest, true = run.manifest, run.source.train.true_labels
    position = [*range(44), *range(manifest.task_ends[0], manifest.task_ends[0] + 44)]  # of a shortened stream
    for row in rows:
        there = [seen for seen, memory in held if int(row["arrival"]) in memory]
        gone = [seen for seen, memory in held if seen > there[-1]]
        assert int(row["entered_at"]) == there[0]
        assert row["evicted_at"] == (str(gone[0]) if gone else "")
        at = position[int(row["arrival"])]
        assert int(row["image"]) == manifest.order[at]
        assert row["given_label"] == str(manifest.labels[at])
        assert row["true_label"] == str(int(true[manifest.order[at]]))
    last = run.learner.trainer.sets
    kept = {int(row["arrival"]): row for row in rows if not row["evicted_at"]}
    assert sorted(kept) == sorted(last.arrivals.tolist())
    for arrival, code, guess in zip(last.arrivals.tolist(), last.codes.tolist(), last.guesses.tolist(), strict=True):
        assert kept[arrival]["set_2"] == SET_NAMES[code]
        assert kept[arrival]["suggested_2"] == (kept[arrival]["given_label"] if code == 0 else str(guess))
    assert "set_3" not in rows[0]


def test_a_memory_whose_samples_still_wait_is_traced_too(tmp_path):
    run = experiment(tiny_config(sampler="spr", memory=100))  # the delay buffer is full once
    run.run(trace=tmp_path / "trace.csv")
    kept = [int(row["arrival"]) for row in rows_of(tmp_path / "trace.csv") if not row["evicted_at"]]
    assert sorted(kept) == sorted(run.learner.memory.samples.arrivals.tolist())


def test_a_trace_changes_nothing_else_and_is_off_unless_asked_for(tmp_path):
    figures, kinds = [], []
    for trace in (None, tmp_path / "trace.csv"):
        events: list[dict[str, Any]] = []
        run = experiment(tiny_config(sampler="rsv", trainer="plain"))
        run.listeners.append(events.append)
        summary = run.run(trace=trace)
        figures.append([summary[name] for name in ("last_accuracy", "anytime_area", "memory_purity", "id")])
        kinds.append({event["event"] for event in events})
    assert figures[0] == figures[1]
    assert kinds == [{"anytime", "task", "split"}, {"anytime", "task", "split", "memory"}]  # plain divides nothing
    assert list(rows_of(tmp_path / "trace.csv")[0])[-1] == "evicted_at"


@pytest.mark.parametrize("said_again", [True, False])
def test_a_run_that_was_left_goes_on_with_its_trace(said_again, tmp_path):
    whole, later, run = tmp_path / "whole.csv", tmp_path / "later.csv", tmp_path / "run"
    experiment(tiny_config()).run(trace=whole)
    leg(tiny_config(), run, Leaving(4), trace=later)
    finish(tiny_config(), run, trace=later if said_again else None)
    if not said_again:  # the finished run still knows
        finish(tiny_config(), run, trace=later)
    assert later.read_text() == whole.read_text()


def test_a_run_that_was_begun_without_a_trace_cannot_get_one_later(tmp_path):
    leg(tiny_config(), tmp_path / "run", Leaving(2))
    with pytest.raises(DataError, match="was begun without --trace"):
        finish(tiny_config(), tmp_path / "run", trace=tmp_path / "trace.csv")


def test_parquet_agrees_with_the_csv(tmp_path):
    pandas, _ = pytest.importorskip("pandas"), pytest.importorskip("pyarrow.parquet")
    run, as_csv, as_parquet = tmp_path / "run", tmp_path / "a.csv", tmp_path / "b.parquet"
    experiment(tiny_config()).run(run, trace=as_csv)
    finish(tiny_config(), run, trace=as_parquet)
    assert pandas.read_parquet(as_parquet).to_csv(index=False) == as_csv.read_text()

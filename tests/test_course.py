"""The way of a run through the phases of its tasks."""

from __future__ import annotations

import itertools
import json

import pytest

from puridiver.recipes import recipe
from puridiver.runs.loop import Position, trainings_of
from tests.resume_samples import experiment, tiny_config


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_stream_and_memory_take_turns_and_then_a_task_is_evaluated(parts):
    at, way = Position(work=5), []
    while at.task < 2:
        way.append((at.task, at.part, at.phase))
        at = at.after(7, 0).next_phase(parts)
        assert (at.done, at.work) == (0, 5)
    expected = [
        (task, part, phase)
        for task in range(2)
        for part in range(parts)
        for phase in ("stream", "memory", *(["evaluate"] if part == parts - 1 else []))
    ]
    assert way == expected


def watched(tmp_path, **changes):
    """The events of a run of two tasks of three batches."""
    config = tiny_config(anytime_points=3, options={**tiny_config().options, **changes})
    run = experiment(config)
    run.run(tmp_path / "run")
    events = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    return run, events


def test_the_memory_is_trained_on_within_a_task_after_even_shares_of_its_samples(tmp_path):
    run, events = watched(tmp_path, consolidations=3)
    first = [event for event in events if event["task"] == 0 and event["event"] != "split"]
    kinds = [(kind, len(list(group))) for kind, group in itertools.groupby(event["event"] for event in first)]
    # A batch and a look, three epochs, and a look after them: twice; at the end of the task the look is the task's own.
    assert kinds == [
        ("anytime", 1),
        ("epoch", 3),
        ("anytime", 2),
        ("epoch", 3),
        ("anytime", 2),
        ("epoch", 3),
        ("task", 1),
    ]
    assert [event["epoch"] for event in first if event["event"] == "epoch"] == list(range(9))
    assert [event["seen"] for event in first if event["event"] == "anytime"] == [16, 16, 32, 32, 44]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["consolidations"], summary["epochs"]) == (3, 3)
    assert run.learner.seen == 88


@pytest.mark.parametrize("points", [0, 1, 2])
def test_accuracy_is_measured_before_and_after_each_training_however_few_points_there_are(points, tmp_path):
    config = tiny_config(anytime_points=points, options={**tiny_config().options, "consolidations": 3})
    experiment(config).run(tmp_path / "run")
    events = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    seen = [event["seen"] for event in events if event["event"] == "anytime" and event["task"] == 0]
    assert seen == ([16, 16, 32, 32, 44] if points else [16, 32])


def test_progress_counts_every_epoch(tmp_path):
    class Counted:
        total = done = 0

        def start(self, total):
            self.total = total

        def advance(self, amount, text):
            self.done += amount

        def event(self, event):
            pass

    config = tiny_config(options={**tiny_config().options, "consolidations": 2})
    counted = Counted()
    experiment(config, counted).run(tmp_path / "run")
    assert counted.done == counted.total == 2 * 44 + 2 * 2 * 3 * 20


def test_epochs_are_judged_after_the_last_training_alone(tmp_path):
    config = tiny_config(evaluate_epochs=True, options={**tiny_config().options, "consolidations": 2})
    experiment(config).run(tmp_path / "run")
    events = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    judged = [(event["task"], event["epoch"]) for event in events if event["event"] == "epoch" and "accuracy" in event]
    assert judged == [(1, 3), (1, 4), (1, 5)]


@pytest.mark.parametrize("evaluated", [False, True])
def test_trainers_that_do_not_divide_the_memory_have_epoch_events_only_where_epochs_are_judged(evaluated):
    """As docs/METHODS.md says."""
    run, epochs = experiment(tiny_config(trainer="plain", evaluate_epochs=evaluated)), []
    run.listeners.append(lambda event: epochs.append(event) if event["event"] == "epoch" else None)
    run.run()
    assert [set(event) for event in epochs] == 3 * evaluated * [{"event", "task", "epoch", "accuracy"}]


@pytest.mark.parametrize(("wanted", "limit", "expected"), [(1, None, [1, 1]), (9, None, [3, 4]), (9, 20, [2, 2])])
def test_no_task_has_more_trainings_than_batches(wanted, limit, expected):
    options = recipe("official", consolidations=wanted, batch_size=10)
    assert trainings_of((30, 61), options, limit) == expected


def test_a_summary_tells_trainings_only_where_they_are_fewer_than_asked_for(tmp_path):
    run, events = watched(tmp_path / "few", consolidations=9)  # of tasks of three batches
    assert run.trainings == [3, 3]
    assert [sum(e["event"] == "epoch" and e["task"] == task for e in events) for task in range(2)] == [9, 9]
    summary = json.loads((tmp_path / "few" / "run" / "summary.json").read_text())
    assert (summary["consolidations"], summary["task_trainings"]) == (9, [3, 3])
    watched(tmp_path / "all", consolidations=3)
    assert "task_trainings" not in json.loads((tmp_path / "all" / "run" / "summary.json").read_text())

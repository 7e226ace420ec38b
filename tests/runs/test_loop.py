"""The way of a run through the phases of its tasks."""

from __future__ import annotations

import itertools

import pytest

from tests.runs.samples import Leaving, events_of, experiment, tiny_config


def test_the_memory_is_trained_on_within_a_task_after_even_shares_of_its_samples(tmp_path):
    """Two tasks of three batches, a training after each batch; the epochs of the last training are judged."""
    config = tiny_config(anytime_points=3, evaluate_epochs=True, options={"consolidations": 9})
    run, progress = experiment(config, counted := Leaving()), counted
    summary = run.run(tmp_path)
    events = events_of(tmp_path)
    first = [event for event in events if event["task"] == 0 and event["event"] != "split"]
    kinds = [(kind, len(list(group))) for kind, group in itertools.groupby(event["event"] for event in first)]
    # A batch and an evaluation, three epochs, an evaluation after them: twice; at the end it is the task's own.
    assert kinds == [
        ("anytime", 1), ("epoch", 3), ("anytime", 2), ("epoch", 3), ("anytime", 2), ("epoch", 3), ("task", 1),
    ]  # fmt: skip
    epochs = [event for event in events if event["event"] == "epoch"]
    assert [event["epoch"] for event in epochs] == 2 * list(range(9))
    assert [event["number"] for event in epochs] == list(range(1, 19))
    assert [event["seen"] for event in first if event["event"] == "anytime"] == [16, 16, 32, 32, 44]
    judged = [(event["task"], event["epoch"]) for event in epochs if "accuracy" in event]
    assert judged == [(1, 6), (1, 7), (1, 8)]
    assert (summary["consolidations"], summary["task_trainings"]) == (9, [3, 3])
    assert sum(progress.amounts) == progress.total == 2 * (2 * 44) + 2 * 3 * 3 * 20


@pytest.mark.parametrize("points", [0, 1])
def test_accuracy_is_measured_before_and_after_each_training_however_few_points_there_are(points):
    run, seen = experiment(tiny_config(anytime_points=points, epochs=1, options={"consolidations": 3})), []
    run.listeners.append(lambda event: seen.append(event["seen"]) if event["event"] == "anytime" else None)
    assert "task_trainings" not in run.run()  # as often as asked for
    assert seen[: len(seen) // 2] == ([16, 16, 32, 32, 44] if points else [16, 32])


def test_single_images_arrive_and_are_predicted_before_they_are_learnt(monkeypatch):
    run, sizes = experiment(tiny_config(sampler="rsv", trainer="er", live=True, options={"stream_batch": 1})), set()
    observe = run.learner.observe
    monkeypatch.setattr(run.learner, "observe", lambda x, *rest, **how: [sizes.add(len(x)), observe(x, *rest, **how)])
    assert 0.1 < run.run()["live_accuracy"] < 1
    assert sizes == {1}

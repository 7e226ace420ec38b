"""The recorder against what can be counted from outside the learner."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from puridiver.data import from_arrays
from puridiver.metrics import METRICS
from puridiver.metrics.recorder import Recorder
from puridiver.streams import Stream, TrueLabels, make_stream
from tests.learner_samples import differing, patterns, tensors_of, tiny_learner
from tests.metrics.test_measures import naive_diversity

SOURCE = from_arrays(*patterns(90, seed=1), *patterns(30, seed=2))
MANIFEST = make_stream(SOURCE, n_tasks=3, minor_share=0.1, noise="sym-40", seed=0)
FEATURES = torch.from_numpy(np.random.default_rng(0).normal(size=(len(MANIFEST), 4)))
CPU = torch.device("cpu")


def recorder(emit: Any) -> Recorder:
    test, truth = SOURCE.test, TrueLabels(SOURCE, MANIFEST)
    return Recorder(test.images, test.labels, MANIFEST.major_classes, truth, emit, FEATURES)


class Watched:
    """A learner and a recorder led through a stream of which only the first batches of each task are used."""

    def __init__(self, evaluate_epochs: bool = False, **settings: Any) -> None:
        self.events: list[dict] = []
        self.learner = tiny_learner(**settings)
        self.recorder = recorder(self.events.append)
        self.positions: list[int] = []
        self.ended: list[dict] = []
        for task in range(3):
            for batch in list(Stream(SOURCE, MANIFEST).batches(8, task))[:2]:
                self.learner.observe(batch.images, batch.labels)
                self.recorder.saw(batch, self.learner)
                self.positions += batch.positions.tolist()
            self.recorder.anytime(self.learner, task)
            for epoch in self.learner.consolidation():
                self.recorder.epoch(self.learner, task, epoch, 2 * task + epoch, evaluate_epochs)
            self.ended.append(self.recorder.task_ended(self.learner, task))

    def of_kind(self, kind: str) -> list[dict]:
        return [event for event in self.events if event["event"] == kind]


@pytest.fixture(scope="module")
def watched() -> Watched:
    return Watched(evaluate_epochs=True)


def test_the_summary_is_of_the_learner_at_the_end_and_of_the_tasks(watched):
    right = watched.learner.predict(SOURCE.test.images) == SOURCE.test.labels.numpy()
    summary = watched.recorder.summary()
    assert set(METRICS) <= set(summary)
    assert summary["last_accuracy"] == pytest.approx(right.mean())
    assert summary["task_accuracy"] == [event["accuracy"] for event in watched.ended]
    assert summary["task_seen_accuracy"] == [event["seen_accuracy"] for event in watched.ended]
    assert summary["task_group_accuracy"] == [event["group_accuracy"] for event in watched.ended]
    assert summary["task_purity"] == [event["memory_purity"] for event in watched.ended]
    of_last_task = [event["accuracy"] for event in watched.of_kind("epoch") if event["task"] == 2]
    assert summary["best_epoch_accuracy"] == max(of_last_task)
    assert summary["last_accuracy"] == of_last_task[-1]
    assert not {"event", "task", "seen", "accuracy", "confusion"} & summary.keys()


def test_accuracies_and_confusion_agree_with_predictions(watched):
    predicted, true = watched.learner.predict(SOURCE.test.images), SOURCE.test.labels.numpy()
    last = watched.of_kind("task")[-1]
    for c in range(3):
        assert last["class_accuracy"][c] == pytest.approx((predicted[true == c] == c).mean())
        assert last["confusion"][c] == [int(((true == c) & (predicted == k)).sum()) for k in range(3)]
    for event in watched.of_kind("task"):
        came = [c for c, count in enumerate(event["stream_per_class"]) if count]
        rows = np.array(event["confusion"])[came]
        assert event["seen_accuracy"] == pytest.approx(rows[:, came].trace() / rows.sum())


def test_only_classes_that_have_come_count_as_seen(watched):
    own = recorder(lambda event: None)
    own._positions = [torch.tensor(watched.positions[:1])]  # as if one sample had come
    first = int(own.truth.given_at(own._positions[0]))
    found, confusion, _ = own.evaluate(watched.learner)
    assert found["seen_accuracy"] == pytest.approx(float(confusion[first, first] / confusion[first].sum()))


def test_the_classes_of_stream_and_memory_are_counted_by_given_and_by_true_label(watched):
    last, memory = watched.of_kind("task")[-1], watched.learner.memory.samples
    seen = np.array(watched.positions)
    true_of = SOURCE.train.labels[torch.from_numpy(MANIFEST.order.copy())].numpy()
    kept = seen[memory.arrivals.numpy()]
    for name, labels in {
        "stream_per_class": MANIFEST.labels[seen],
        "stream_per_true_class": true_of[seen],
        "memory_per_class": memory.labels.numpy(),
        "memory_per_true_class": true_of[kept],
    }.items():
        assert last[name] == [int((labels == c).sum()) for c in range(3)], name


def test_purity_and_diversity_follow_the_samples_of_a_shortened_stream(watched):
    """Arrivals count what the learner saw; positions skip what it did not see."""
    memory = watched.learner.memory.samples
    positions = np.array(watched.positions)[memory.arrivals.numpy()]
    assert positions.max() > watched.learner.seen
    true = SOURCE.train.labels[torch.from_numpy(MANIFEST.order[positions])]
    summary = watched.recorder.summary()
    assert summary["memory_purity"] == pytest.approx(float((memory.labels == true).double().mean()))
    expected = naive_diversity(FEATURES[torch.from_numpy(positions)].numpy(), true.tolist(), 3)
    assert summary["memory_diversity"] == pytest.approx(expected)
    splits = watched.of_kind("split")
    purity = [sum(event["right"]) / len(event["right"]) for event in splits]
    assert purity == pytest.approx([event["memory_purity"] for event in watched.ended])


def test_the_curve_has_each_point_and_each_task_end(watched):
    points = [(event["seen"], event["accuracy"]) for event in watched.events if event["event"] in ("anytime", "task")]
    assert [seen for seen, _ in points] == [16, 16, 32, 32, 48, 48]
    for event in watched.of_kind("epoch"):
        assert event["clean_size"] + event["relabel_size"] + event["unlabelled_size"] == 12


def test_a_tasks_alpha_is_that_of_all_its_batches_whatever_the_points(watched):
    assert all(0 <= event["alpha"] <= 0.5 for event in watched.of_kind("anytime"))
    own = recorder((told := []).append)
    own._positions, own._alphas = [torch.tensor(watched.positions)], [torch.tensor(0.1)]
    own.anytime(watched.learner, 2)
    own._alphas += [torch.tensor(0.2), torch.tensor(0.4)]
    own.anytime(watched.learner, 2)
    own.anytime(watched.learner, 2)
    assert own.task_ended(watched.learner, 2)["alpha"] == pytest.approx(0.7 / 3)
    assert [event["alpha"] for event in told[:3]] == [pytest.approx(0.1), pytest.approx(0.3), None]


def test_a_network_that_has_diverged_is_told_from_one_that_is_bad(monkeypatch):
    own = Watched(sampler="rsv", trainer="plain")
    assert all("diverged" not in event for event in own.events)
    assert own.of_kind("epoch") == []
    assert own.recorder.summary()["best_epoch_accuracy"] is None
    monkeypatch.setattr(own.learner, "predict_proba", lambda images, as_it_is: np.full((len(images), 3), np.nan))
    own.recorder.anytime(own.learner, 2)
    assert own.events[-1]["diverged"]
    assert own.recorder.task_ended(own.learner, 2)["diverged"]
    assert own.recorder.summary()["diverged"]


def test_watching_changes_no_bit_of_the_learner(watched):
    alone = tiny_learner()
    for task in range(3):
        for batch in list(Stream(SOURCE, MANIFEST).batches(8, task))[:2]:
            alone.observe(batch.images, batch.labels)
        alone.consolidate()
    assert differing(tensors_of(alone), tensors_of(watched.learner)) == []


def test_some_labels_that_are_true_for_certain_are_told_apart(watched):
    test, events = SOURCE.test, list[dict]()
    verified = torch.arange(len(test.labels)) < 10
    own = Recorder(
        test.images, test.labels, MANIFEST.major_classes, TrueLabels(SOURCE, MANIFEST), events.append, verified=verified
    )
    own._positions = [torch.tensor(watched.positions)]
    found = own.task_ended(watched.learner, 2)
    right = watched.learner.predict(test.images[:10]) == test.labels[:10].numpy()
    assert (found["evaluated"], found["verified"]) == (30, 10)
    assert found["verified_accuracy"] == pytest.approx(right.mean())


def same(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor):
        return torch.equal(first, second)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return first == second


def test_everything_it_notes_is_in_its_state(watched):
    """Whoever lets the recorder note one more thing must save it, or a resumed run would lose it."""
    noted = watched.recorder
    noted._alphas, noted._alphas_told = [torch.tensor(0.1), torch.tensor(1 / 3)], 1
    figures, tensors = noted.state()
    again = recorder(noted.emit)
    again.load_state(json.loads(json.dumps(figures)), tensors, CPU)
    given = ("images", "labels", "groups", "truth", "features", "emit", "verified", "watch", "record")
    names = [name for name in vars(noted) if name not in given]
    assert [name for name in names if not same(getattr(noted, name), getattr(again, name))] == []
    assert again.record.events == noted.record.events
    assert again.summary() == noted.summary()

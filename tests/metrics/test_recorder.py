"""The recorder against what can be counted from outside the learner."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from puridiver.data import ImageSet, from_arrays
from puridiver.learner.learner import Learner
from puridiver.metrics import METRICS
from puridiver.metrics.recorder import Recorder
from puridiver.streams import Stream, TrueLabels, make_stream
from tests.learner_samples import patterns, tiny_learner

SOURCE = from_arrays(*patterns(90, seed=1), *patterns(30, seed=2))
TEST = SOURCE.test
MANIFEST = make_stream(SOURCE, n_tasks=3, minor_share=0.1, noise="sym-40", seed=0)
FEATURES = torch.from_numpy(np.random.default_rng(0).normal(size=(len(MANIFEST), 4)))
TRUE = SOURCE.train.labels[torch.from_numpy(MANIFEST.order.copy())]


def recorder(learner: Learner, emit: Any, verified: torch.Tensor | None = None) -> Recorder:
    evaluation = ImageSet(TEST.images, TEST.labels, verified=verified)
    return Recorder(learner, evaluation, MANIFEST.major_classes, TrueLabels.of(SOURCE, MANIFEST), emit, FEATURES)


class Watched:
    """A learner and a recorder led through the stream."""

    def __init__(self, evaluate_epochs: bool = False, **settings: Any) -> None:
        self.events: list[dict] = []
        self.learner = tiny_learner(**settings)
        self.recorder = recorder(self.learner, self.events.append)
        self.ended: list[dict] = []
        self.guesses = list[int]()  # before each batch
        for task in range(3):
            arrivals = MANIFEST.task_slice(task)
            for start in range(arrivals.start, arrivals.stop, 8):
                batch = Stream(SOURCE, MANIFEST).read(start, min(start + 8, arrivals.stop))
                self.guesses += self.learner.predict(batch.images).tolist()
                self.recorder.arrived(batch.images)
                self.learner.observe(batch.images, batch.labels)
                self.recorder.observed()
            self.recorder.anytime(task)
            for epoch in self.learner.consolidation():
                self.recorder.epoch(task, epoch, 2 * task + epoch, evaluate_epochs)
            self.ended.append(self.recorder.task_ended(task))

    def of_kind(self, *kinds: str) -> list[dict]:
        return [event for event in self.events if event["event"] in kinds]


@pytest.fixture(scope="module")
def watched() -> Watched:
    return Watched(evaluate_epochs=True)


def test_the_summary_is_of_the_learner_at_the_end_and_of_the_tasks(watched):
    right = watched.learner.predict(TEST.images) == TEST.labels.numpy()
    summary = watched.recorder.summary()
    assert set(METRICS) <= set(summary)
    assert summary["last_accuracy"] == pytest.approx(right.mean())
    assert summary["live_accuracy"] == pytest.approx((np.array(watched.guesses) == TRUE.numpy()).mean())
    for name in ("accuracy", "seen_accuracy", "group_accuracy"):
        assert summary[f"task_{name}"] == [event[name] for event in watched.ended]
    assert summary["task_purity"] == [event["memory_purity"] for event in watched.ended]
    of_last_task = [event["accuracy"] for event in watched.of_kind("epoch") if event["task"] == 2]
    assert summary["best_epoch_accuracy"] == max(of_last_task)
    assert summary["last_accuracy"] == of_last_task[-1]
    assert not {"event", "task", "seen", "accuracy", "confusion"} & summary.keys()


def test_accuracies_and_confusion_agree_with_predictions(watched):
    predicted, true = watched.learner.predict(TEST.images), TEST.labels.numpy()
    last = watched.of_kind("task")[-1]
    for c in range(3):
        assert last["class_accuracy"][c] == pytest.approx((predicted[true == c] == c).mean())
        assert last["confusion"][c] == [int(((true == c) & (predicted == k)).sum()) for k in range(3)]
    for event in watched.of_kind("task"):
        came = sorted(set(MANIFEST.labels[: event["seen"]].tolist()))
        rows = np.array(event["confusion"])[came]
        assert event["seen_accuracy"] == pytest.approx(rows[:, came].trace() / rows.sum())


def test_only_classes_that_have_come_count_as_seen():
    learner = tiny_learner()
    batch = Stream(SOURCE, MANIFEST).read(0, 1)
    learner.observe(batch.images, batch.labels)
    found, confusion, _ = recorder(learner, print).evaluate()
    first = int(batch.labels)
    assert found["seen_accuracy"] == pytest.approx(float(confusion[first, first] / confusion[first].sum()))


def test_the_sets_of_a_tasks_end_and_those_of_its_figure_are_one_division(watched):
    for event, split in zip(watched.ended, watched.of_kind("split"), strict=True):
        assert sum(split["right"]) / len(split["right"]) == pytest.approx(event["memory_purity"])
        for code, name in enumerate(("clean", "relabel", "unlabelled")):
            judged = "guess_right" if name == "relabel" else "right"
            members = [right for right, own in zip(split[judged], split["sets"], strict=True) if own == code]
            share = sum(members) / len(members) if members else None
            expected = 1 - share if name == "unlabelled" and share is not None else share
            assert event[f"{name}_size"] == len(members)
            assert event[f"{name}_precision"] == (None if expected is None else pytest.approx(expected))
    for event in watched.of_kind("epoch"):
        assert event["clean_size"] + event["relabel_size"] + event["unlabelled_size"] == 12


def test_a_tasks_alpha_is_that_of_all_its_batches_whatever_the_points(watched):
    assert all(0 <= event["alpha"] <= 0.5 for event in watched.of_kind("anytime"))
    own = recorder(watched.learner, (told := []).append)
    own.alphas = [torch.tensor(0.1)]
    own.anytime(2)
    own.alphas += [torch.tensor(0.2), torch.tensor(0.4)]
    own.anytime(2)
    own.anytime(2)
    assert own.task_ended(2)["alpha"] == pytest.approx(0.7 / 3)
    assert [event["alpha"] for event in told[:3]] == [pytest.approx(0.1), pytest.approx(0.3), None]


def test_a_network_that_has_diverged_is_told_from_one_that_is_bad(monkeypatch):
    own = Watched(sampler="rsv", trainer="plain")
    assert all("diverged" not in event for event in own.events)
    assert own.of_kind("epoch") == []
    assert own.recorder.summary()["best_epoch_accuracy"] is None
    monkeypatch.setattr(own.learner, "predict_proba", lambda images, as_it_is: np.full((len(images), 3), np.nan))
    own.recorder.anytime(2)
    assert own.events[-1]["diverged"]
    assert own.recorder.task_ended(2)["diverged"]
    assert own.recorder.summary()["diverged"]


def test_some_labels_that_are_true_for_certain_are_told_apart(watched):
    own = recorder(watched.learner, lambda event: None, verified=torch.arange(30) < 10)
    found = own.task_ended(2)
    right = watched.learner.predict(TEST.images[:10]) == TEST.labels[:10].numpy()
    assert (found["evaluated"], found["verified"]) == (30, 10)
    assert found["verified_accuracy"] == pytest.approx(right.mean())

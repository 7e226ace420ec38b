"""The recorder against what can be counted from outside the learner."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from puridiver import Learner
from puridiver.data import from_arrays
from puridiver.metrics import Recorder, Stopwatch, anytime_area, backward_transfer
from puridiver.runtime.device import choose_runtime
from puridiver.streams import Stream, TrueLabels, make_stream
from tests.learner_samples import TINY, differing, patterns, tensors_of
from tests.metrics.test_memory import naive_diversity

SOURCE = from_arrays(*patterns(90, seed=1), *patterns(30, seed=2))
MANIFEST = make_stream(SOURCE, n_tasks=3, minor_share=0.1, noise="sym-40", seed=0)
FEATURES = torch.from_numpy(np.random.default_rng(0).normal(size=(len(MANIFEST), 4)))


class Watched:
    """A learner and a recorder led through a stream of which only the first batches of each task are used."""

    def __init__(self, trainer: str = "puridiver", sampler: str = "puridiver", evaluate_epochs: bool = False) -> None:
        self.events: list[dict] = []
        self.learner = Learner(3, (8, 8, 1), 12, device="cpu", trainer=trainer, sampler=sampler, **TINY)
        test, truth = SOURCE.test, TrueLabels(SOURCE, MANIFEST)
        clock = Stopwatch(choose_runtime("cpu"))
        groups = MANIFEST.major_classes
        self.recorder = Recorder(test.images, test.labels, groups, truth, FEATURES, self.events.append, clock)
        self.positions: list[int] = []
        self.ended: list[dict] = []
        for task in range(3):
            self._task(task, evaluate_epochs)

    def _task(self, task: int, evaluate_epochs: bool) -> None:
        for batch in list(Stream(SOURCE, MANIFEST).batches(8, task))[:2]:
            self.learner.observe(batch.images, batch.labels)
            self.recorder.saw(batch, self.learner)
            self.positions += batch.positions.tolist()
        self.recorder.anytime(self.learner, task)
        for epoch in self.learner.consolidation():
            self.recorder.epoch(self.learner, task, epoch, evaluate_epochs)
        self.ended.append(self.recorder.task_ended(self.learner, task))

    def of_kind(self, kind: str) -> list[dict]:
        return [event for event in self.events if event["event"] == kind]


@pytest.fixture(scope="module")
def watched() -> Watched:
    return Watched(evaluate_epochs=True)


def test_the_last_accuracy_is_that_of_the_learner_at_the_end(watched):
    right = watched.learner.predict(SOURCE.test.images) == SOURCE.test.labels.numpy()
    summary = watched.recorder.summary()
    assert summary["last_accuracy"] == pytest.approx(right.mean())
    assert summary["task_accuracy"] == [event["accuracy"] for event in watched.ended]
    assert summary["average_accuracy"] == pytest.approx(np.mean(summary["task_accuracy"]))


def test_the_accuracy_on_classes_that_have_come_leaves_the_others_out(watched, monkeypatch):
    summary = watched.recorder.summary()
    assert summary["task_seen_accuracy"] == [event["seen_accuracy"] for event in watched.ended]
    assert summary["average_seen_accuracy"] == pytest.approx(np.mean(summary["task_seen_accuracy"]))
    last, recorder = watched.of_kind("task")[-1], watched.recorder
    assert recorder._classes_so_far() == [c for c, count in enumerate(last["stream_per_class"]) if count]
    monkeypatch.setattr(recorder, "_positions", [torch.tensor(watched.positions[:1])])  # as if one sample had come
    (first,) = recorder._classes_so_far()
    assert first == int(recorder.truth.given_at(torch.tensor(watched.positions[:1])))


def test_the_anytime_accuracy_on_classes_that_have_come_is_the_mean_of_its_own_points(watched):
    events = [event for event in watched.events if event["event"] in ("anytime", "task")]
    points = [(event["seen"], event["seen_accuracy"]) for event in events]
    assert watched.recorder.summary()["anytime_seen_area"] == pytest.approx(anytime_area(points))
    for event in events:
        confusion = event.get("confusion")
        if confusion is not None:
            came = [c for c, count in enumerate(event["stream_per_class"]) if count]
            rows = np.array(confusion)[came]
            assert event["seen_accuracy"] == pytest.approx(rows[:, came].trace() / rows.sum())


def test_points_before_any_test_image_has_a_class_that_came_do_not_count():
    watched = Watched()
    expected = watched.recorder.summary()["anytime_seen_area"]
    watched.recorder.seen_curve.insert(0, (0, float("nan")))
    assert watched.recorder.summary()["anytime_seen_area"] == expected


def test_a_checkpoint_of_a_version_without_anytime_seen_leaves_it_unknown_and_the_rest_as_it_was():
    watched, fresh = Watched(), Watched()
    figures, tensors = watched.recorder.state()
    assert figures.pop("seen_curve")
    fresh.recorder.load_state(figures, tensors)
    fresh.recorder.anytime(watched.learner, 2)
    assert fresh.recorder.summary()["anytime_seen_area"] is None
    assert fresh.recorder.summary()["anytime_area"] > 0


def test_the_summary_has_the_table_that_forgetting_and_transfer_are_made_of(watched):
    summary = watched.recorder.summary()
    assert summary["task_group_accuracy"] == [event["group_accuracy"] for event in watched.ended]
    assert summary["backward_transfer"] == pytest.approx(backward_transfer(summary["task_group_accuracy"]))


def test_a_checkpoint_of_a_version_without_it_leaves_that_accuracy_unknown():
    watched = Watched()
    del watched.recorder.task_events[0]["seen_accuracy"]
    summary = watched.recorder.summary()
    assert summary["average_seen_accuracy"] is None
    assert summary["average_accuracy"] > 0


def test_class_accuracy_and_confusion_agree_with_predictions(watched):
    predicted, true = watched.learner.predict(SOURCE.test.images), SOURCE.test.labels.numpy()
    last = watched.of_kind("task")[-1]
    for c in range(3):
        assert last["class_accuracy"][c] == pytest.approx((predicted[true == c] == c).mean())
        assert last["confusion"][c] == [int(((true == c) & (predicted == k)).sum()) for k in range(3)]


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
    assert last["stream_per_class"] != last["stream_per_true_class"]


def test_each_task_leaves_what_every_sample_of_the_memory_looked_like(watched):
    splits, sizes = watched.of_kind("split"), [event["memory_size"] for event in watched.ended]
    assert [event["task"] for event in splits] == [0, 1, 2]
    assert [len(event["losses"]) for event in splits] == sizes
    purity = [sum(event["right"]) / len(event["right"]) for event in splits]
    assert purity == pytest.approx([event["memory_purity"] for event in watched.ended])


def test_purity_and_diversity_follow_the_samples_of_a_shortened_stream(watched):
    """Arrivals count what the learner saw; positions skip what it did not see."""
    memory = watched.learner.memory.samples
    positions = np.array(watched.positions)[memory.arrivals.numpy()]
    assert positions.max() > watched.learner.seen
    true = SOURCE.train.labels[torch.from_numpy(MANIFEST.order[positions])]
    np.testing.assert_array_equal(memory.labels.numpy(), MANIFEST.labels[positions])
    summary = watched.recorder.summary()
    assert summary["memory_purity"] == pytest.approx(float((memory.labels == true).double().mean()))
    expected = naive_diversity(FEATURES[torch.from_numpy(positions)].numpy(), true.tolist(), 3)
    assert summary["memory_diversity"] == pytest.approx(expected)


def test_forgetting_by_hand_from_the_tasks_events(watched):
    groups = [event["group_accuracy"] for event in watched.ended]
    drops = [max(groups[0][0], groups[1][0]) - groups[2][0], groups[1][1] - groups[2][1]]
    assert watched.recorder.summary()["forgetting"] == pytest.approx(np.mean(drops))


def test_the_anytime_curve_has_each_point_and_each_task_end(watched):
    points = [(event["seen"], event["accuracy"]) for event in watched.events if event["event"] in ("anytime", "task")]
    assert watched.recorder.curve == points
    assert [seen for seen, _ in points] == [16, 16, 32, 32, 48, 48]


def test_alpha_is_reported_over_time(watched):
    assert all(0 <= event["alpha"] <= 0.5 for event in watched.of_kind("anytime"))
    # One point a task here, so that the task's mean is the point's.
    of_points, of_tasks = ([event["alpha"] for event in watched.of_kind(kind)] for kind in ("anytime", "task"))
    assert of_tasks == of_points
    assert watched.recorder.summary()["alpha"] == of_tasks[-1]


def test_a_tasks_alpha_is_that_of_all_its_batches_whatever_the_points():
    own = Watched()
    recorder, learner = own.recorder, own.learner
    recorder._alphas, recorder._alphas_told = [torch.tensor(0.1)], 0
    told = []
    recorder.emit = told.append
    recorder.anytime(learner, 2)
    recorder._alphas += [torch.tensor(0.2), torch.tensor(0.4)]
    recorder.anytime(learner, 2)
    recorder.anytime(learner, 2)
    assert recorder.task_ended(learner, 2)["alpha"] == pytest.approx(0.7 / 3)
    assert [event["alpha"] for event in told[:3]] == [pytest.approx(0.1), pytest.approx(0.3), None]


def test_a_network_that_has_diverged_is_told_from_one_that_is_bad(caplog):
    own = Watched()
    assert all("diverged" not in event for event in own.events)
    for parameter in own.learner.trainer.trainees[0].network.parameters():
        parameter.data.fill_(torch.nan)
    own.recorder.anytime(own.learner, 2)
    assert own.events[-1]["diverged"]
    assert own.recorder.task_ended(own.learner, 2)["diverged"]
    assert own.recorder.summary()["diverged"]
    assert [message for message in caplog.messages if "diverged" in message] == [
        "the network predicts nan: its training has diverged; a lower rate (online_lr, lr) may help"
    ]


def test_best_epoch_is_the_best_of_the_last_task_and_apart_from_the_last_accuracy(watched):
    summary = watched.recorder.summary()
    of_last_task = [event["accuracy"] for event in watched.of_kind("epoch") if event["task"] == 2]
    assert len(of_last_task) == 2
    assert summary["best_epoch_accuracy"] == max(of_last_task)
    assert summary["last_accuracy"] == of_last_task[-1]


def test_the_sets_sizes_cover_the_memory_at_every_epoch(watched):
    for event in watched.of_kind("epoch"):
        assert event["clean_size"] + event["relabel_size"] + event["unlabelled_size"] == 12


def test_without_epoch_evaluation_there_is_no_best_epoch():
    plain = Watched(trainer="plain", sampler="rsv")
    assert "best_epoch_accuracy" not in plain.recorder.summary()
    assert plain.of_kind("epoch") == []
    assert all(event["alpha"] is None for event in plain.of_kind("anytime"))


def test_watching_changes_no_bit_of_the_learner(watched):
    alone = Learner(3, (8, 8, 1), 12, device="cpu", **TINY)
    for task in range(3):
        for batch in list(Stream(SOURCE, MANIFEST).batches(8, task))[:2]:
            alone.observe(batch.images, batch.labels)
        alone.consolidate()
    assert differing(tensors_of(alone), tensors_of(watched.learner)) == []


def same(first, second) -> bool:
    if isinstance(first, torch.Tensor):
        return torch.equal(first, second)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return first == second


def test_everything_it_notes_is_in_its_state():
    """Whoever lets the recorder note one more thing must save it, or a resumed run would lose it."""
    watched = Watched(evaluate_epochs=True)
    noted = watched.recorder
    noted._alphas, noted._alphas_told = [torch.tensor(0.1), torch.tensor(1 / 3)], 1
    noted.epoch_accuracies = [0.5]
    figures, tensors = noted.state()
    given = (noted.images, noted.labels, noted.groups, noted.truth, noted.features, noted.emit, noted.clock)
    again = Recorder(*given)
    again.load_state(json.loads(json.dumps(figures)), tensors)
    noted._positions = [torch.cat(noted._positions)]
    assert [name for name, value in vars(noted).items() if not same(value, vars(again)[name])] == []
    assert again.summary() == noted.summary()

"""What a long-running service asks of a learner: threads, batches of any size, copies, labels that make no sense."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from puridiver import ConsolidatingError, DivergedError, Learner
from puridiver.trainers import StreamBatch
from tests.learner_samples import patterns, tiny_learner


@pytest.mark.parametrize("method", ["auto", "puridiver"])
def test_a_large_batch_is_learnt_as_the_small_ones_it_could_have_come_as(method: str) -> None:
    images, labels = patterns(40)
    settings = {"memory": 12, "seed": 3, "sampler": method, "trainer": method, "batch_size": 4}
    whole, parts = (Learner(classes=3, input_shape=(8, 8, 1), **settings) for _ in range(2))
    assert whole.observe(images, labels).arrivals == range(40)
    for start, end in ((0, 14), (14, 27), (27, 40)):
        parts.observe(images[start:end], labels[start:end])
    assert whole.memory.samples.arrivals.tolist() == parts.memory.samples.arrivals.tolist()
    assert np.array_equal(whole.predict_proba(images), parts.predict_proba(images))


def test_nothing_is_observed_removed_or_resized_amid_a_consolidation() -> None:
    images, labels = patterns(16)
    learner = Learner(classes=None, input_shape=(8, 8, 1), memory=16, seed=3)
    learner.observe(images, labels)
    epochs = learner.consolidation(3)
    next(epochs)
    with pytest.raises(ConsolidatingError, match="a consolidation is under way: finish it, or close its iterator"):
        learner.observe(images, labels)
    with pytest.raises(ConsolidatingError, match="before another"):
        next(learner.consolidation(3))
    with pytest.raises(ConsolidatingError, match="before removing a class"):
        learner.remove_class(0)
    with pytest.raises(ConsolidatingError, match="before making the memory smaller"):
        learner.resize(12)
    assert learner.seen == 16
    epochs.close()
    learner.observe(images, labels)
    assert learner.consolidations == 1


def test_gradients_that_the_caller_turned_off_do_not_matter() -> None:
    images, labels = patterns(16)
    inside, outside = (Learner(classes=3, input_shape=(8, 8, 1), memory=16, seed=3) for _ in range(2))
    with torch.inference_mode(), torch.no_grad():
        inside.observe(images, labels)
        inside.consolidate(2)
    outside.observe(images, labels)
    outside.consolidate(2)
    for learner in (inside, outside):
        learner.observe(images, labels)
    assert np.array_equal(inside.predict_proba(images), outside.predict_proba(images))


def test_a_learner_can_be_copied_and_pickled() -> None:
    images, labels = patterns(32)
    learner = Learner(classes=None, input_shape=(8, 8, 1), memory=16, seed=3)
    learner.observe(images[:16], labels[:16])
    learner.consolidate(2)
    copied = copy.deepcopy(pickle.loads(pickle.dumps(learner)))
    for each in (learner, copied):
        each.observe(images[16:], labels[16:])
    assert copied.memory is not learner.memory
    assert np.array_equal(copied.predict_proba(images), learner.predict_proba(images))


@pytest.mark.parametrize(("replay", "joined"), [("after_first_consolidation", True), ("never", False)])
def test_a_single_image_is_joined_by_memory_samples_from_the_start(
    replay: str, joined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, labels = patterns(24)
    learner = Learner(classes=3, input_shape=(8, 8, 1), memory=16, seed=3, replay=replay)
    real, found = learner.trainer.observe, []

    def watched(batch: StreamBatch) -> Any:
        found.append(0 if batch.replay is None else len(batch.replay))
        return real(batch)

    monkeypatch.setattr(learner.trainer, "observe", watched)
    learner.observe(images[:8], labels[:8])
    for row in range(8, 12):
        learner.observe(images[row : row + 1], labels[row : row + 1])
    learner.observe(images[12:14], labels[12:14])
    assert found == [0, *([8] * 4 if joined else [0] * 4), 0]


def test_a_learner_that_has_diverged_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    images, labels = patterns(40)
    learner = Learner(classes=3, input_shape=(8, 8, 1), memory=12, seed=3, online_lr=0.01, batch_size=4)
    learner.observe(images, labels)
    learner.predict(images)
    learner.save(tmp_path / "good")
    assert "diverged" not in caplog.text
    bad = Learner(classes=3, input_shape=(8, 8, 1), memory=12, seed=3, online_lr=1e9, batch_size=4)
    bad.observe(images, labels)
    with pytest.raises(DivergedError, match=r"a lower rate \(online_lr, lr\)"):
        bad.predict(images)
    assert np.isnan(bad.predict_proba(images)).any()  # as runs count it
    bad.save(tmp_path / "bad")
    assert f"saved to {tmp_path / 'bad'} has diverged" in caplog.text


def test_on_a_cpu_a_prediction_waits_for_nobody() -> None:
    """It answers while another thread holds the learner's lock, as training and saving do, and answers as before."""
    images, labels = patterns(24)
    learner = tiny_learner()
    learner.observe(images, labels)
    expected, found = learner.predict_proba(images), list[np.ndarray]()

    def hold() -> None:
        predicting = threading.Thread(target=lambda: found.append(learner.predict_proba(images)))
        predicting.start()
        predicting.join(60)

    learner.lock.run(hold)
    assert np.array_equal(found, [expected])


def test_its_status_tells_what_came_what_is_held_and_how_far_a_consolidation_is() -> None:
    images, labels = patterns(40)
    learner = tiny_learner(None, sampler="spr")
    learner.observe(images, np.array(["cat", "dog", "owl"])[labels])
    learner.correct({int(learner.memory.samples.arrivals[0]): "owl"})
    going = learner.consolidation(2)
    next(going)
    status, held = learner.status(), learner.memory.held()
    assert (status["samples_seen"], status["consolidations"], status["diverged"]) == (40, 0, False)
    assert status["consolidation"] == {"epochs_done": 1, "epochs": 2}
    assert status["memory"] == {"held": len(held), "checked": 1, "capacity": 12}
    for number, known in enumerate(status["classes"]):
        assert known["label"] == learner.classes[number]
        assert known["held"] == held.labels.tolist().count(number)
    assert sum(known["seen"] for known in status["classes"]) == 40
    assert sum(status["sets"].values()) == len(learner.memory)
    assert json.loads(json.dumps(status, allow_nan=False)) == status

"""Snapshots: the learner's answer at one moment, for other threads, unchanged by what comes later."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from puridiver import DivergedError
from puridiver.trainers import TRAINERS
from tests.learner_samples import feed, patterns, tiny_learner

IMAGES, LABELS = patterns(48)


@pytest.mark.parametrize(("trainer", "mode"), [*((name, "weighed") for name in TRAINERS), ("puridiver", "network")])
def test_a_snapshot_says_for_ever_what_the_learner_said(trainer: str, mode: str) -> None:
    learner = tiny_learner(None, trainer=trainer, online_prediction=mode)
    names = np.array(["cat", "dog", "owl", "yak"])
    feed(learner, IMAGES[:24], names[LABELS[:24]])
    early, first = learner.snapshot(), learner.predict_proba(IMAGES)
    learner.consolidate(2)
    feed(learner, IMAGES[24:40], names[LABELS[24:40]])
    late, second = learner.snapshot(), learner.predict_proba(IMAGES)
    learner.observe(IMAGES[40:], names[np.full(8, 3)])  # a new class: the networks are built anew
    learner.consolidate(1)
    for snapshot, expected, seen in ((early, first, 24), (late, second, 40)):
        np.testing.assert_allclose(snapshot.predict_proba(IMAGES), expected, atol=1e-6)
        assert snapshot.predict(IMAGES).tolist() == [snapshot.classes[k] for k in expected.argmax(axis=1)]
        assert sorted(snapshot.classes) == ["cat", "dog", "owl"]
        assert snapshot.samples_seen == seen


def test_many_threads_use_it_while_the_learner_is_locked() -> None:
    learner = feed(tiny_learner(), IMAGES, LABELS)
    expected, found = learner.predict_proba(IMAGES), list[np.ndarray]()

    def hold() -> None:
        threads = [threading.Thread(target=lambda: found.append(snapshot.predict_proba(IMAGES))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    snapshot = learner.snapshot()
    learner.lock.run(hold)
    assert np.array_equal(found, [expected] * 4)


def test_it_refuses_what_the_learner_refuses() -> None:
    with pytest.raises(ValueError, match="knows no class yet"):
        tiny_learner(None).snapshot()
    learner = feed(tiny_learner(), IMAGES, LABELS)
    with pytest.raises(ValueError, match="shape"):
        learner.snapshot().predict(IMAGES[:, :4])
    for value in learner.trainer.models[0].seen.values():
        value.fill_(np.nan)
    learner.predictor.publish(learnt_online=True)
    with pytest.raises(DivergedError):
        learner.snapshot().predict(IMAGES)

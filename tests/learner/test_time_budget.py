"""Consolidations that have so many seconds: where they stop, and what predicts then."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from puridiver import Learner
from puridiver.learner import consolidation as consolidating
from puridiver.learner.consolidation import TimeBudget
from tests.learner_samples import differing, feed, patterns, tensors_of, tiny_learner

IMAGES, LABELS = patterns(40)


class Clock:
    """Stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(consolidating, "monotonic", found)
    return found


def fed() -> Learner:
    return feed(tiny_learner(epochs=63, online_prediction="consolidated"), IMAGES, LABELS)


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """But for what dividing by their sum once more does to them."""
    return bool(np.abs(one - other).max() < 1e-5)


@pytest.mark.parametrize(
    ("seconds", "lasts", "start", "epochs"),
    [
        *((seconds, lambda epoch: 1, 0, epochs) for seconds, epochs in [(0.5, 1), (5, 5), (7, 7), (14.9, 7), (15, 15)]),
        # Warm-up epochs are quick: at 15 the mean since 7 tells what the next ones cost.
        (60, lambda epoch: 1 if epoch < 10 else 4, 0, 15),
        # Epochs get slower: it stops after that in which the seconds are over.
        (40, lambda epoch: 1 if epoch < 15 else 4, 0, 22),
        # A training that is continued is measured from there.
        (12, lambda epoch: 1, 7, 15),
        (24, lambda epoch: 1, 7, 31),
    ],
)
def test_it_stops_at_the_last_minimum_that_fits(
    seconds: float, lasts: Callable[[int], float], start: int, epochs: int, clock: Clock
) -> None:
    budget = TimeBudget(seconds, clock(), [7, 15, 31, 63], start)
    for done in range(start + 1, 64):
        clock.now += lasts(done - 1)
        if budget.is_spent(done):
            break
    assert done == epochs


def test_a_consolidation_is_left_at_a_low_which_then_predicts(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    learner, left = fed(), fed()
    for _ in learner.consolidation(seconds=20):
        clock.now += 1
    for epoch in left.consolidation(63):
        if epoch == 14:
            break
    assert differing(tensors_of(learner), tensors_of(left)) == []
    assert same(learner.predict_proba(IMAGES), learner.predict_proba(IMAGES, as_it_is=True))
    at_low = learner.predict_proba(IMAGES)
    learner.observe(IMAGES[:8], LABELS[:8])
    assert same(learner.predict_proba(IMAGES), at_low)  # as after one that came to its end
    assert caplog.text.count("a consolidation stopped") == 1  # that of `left`
    assert learner.consolidations == 1
    last = learner.status()["last_consolidation"]
    assert (last["epochs_done"], last["epochs"]) == (15, 63)


def test_amid_a_period_what_predicted_at_the_low_before_goes_on_to(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    learner, at_low = fed(), np.zeros(0)
    for epoch in learner.consolidation(seconds=20):
        clock.now += 1 if epoch < 7 else 4
        if epoch == 6:
            at_low = learner.predict_proba(IMAGES, as_it_is=True)
    assert learner.status()["last_consolidation"]["epochs_done"] == 11
    assert "a consolidation stopped after 11 of 63 epochs, when its 20 seconds were over:" in caplog.text
    assert same(learner.predict_proba(IMAGES), at_low)
    assert not same(learner.predict_proba(IMAGES, as_it_is=True), at_low)


@pytest.mark.parametrize("settings", [{"schedule": "cosine"}, {"sampler": "spr", "trainer": "spr"}])
def test_a_rate_that_is_low_at_its_end_alone_has_no_use_for_seconds(settings: dict[str, str]) -> None:
    learner = tiny_learner(epochs=63, **settings)
    learner.observe(IMAGES[:16], LABELS[:16])
    before = tensors_of(learner)
    with pytest.raises(ValueError, match=r"seconds should be left out .* give a number of epochs"):
        learner.consolidate(seconds=10)
    assert differing(before, tensors_of(learner)) == []
    assert learner.begun is None
    learner.consolidate(1)

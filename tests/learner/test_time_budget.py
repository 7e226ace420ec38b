"""Consolidations that have so many seconds: where they stop, and what predicts then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from puridiver import Learner
from puridiver.learner import consolidation as consolidating
from puridiver.learner.consolidation import TimeBudget
from tests.learner_samples import differing, patterns, tensors_of, tiny_learner

IMAGES, LABELS = patterns(40)
LOWS = [7, 15, 31, 63]


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
    learner = tiny_learner(epochs=63, online_prediction="consolidated")
    for start in range(0, 40, 8):
        learner.observe(IMAGES[start : start + 8], LABELS[start : start + 8])
    return learner


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """But for what dividing by their sum once more does to them."""
    return bool(np.abs(one - other).max() < 1e-5)


def epochs_within(learner: Learner, seconds: float, clock: Clock, lasts: Callable[[int], float]) -> int:
    """How many it trains for, if each epoch takes as long as `lasts` says of its number."""
    done = 0
    for epoch in learner.consolidation(seconds=seconds):
        clock.now += lasts(epoch)
        done = epoch + 1
    return done


def stops_after(budget: TimeBudget, clock: Clock, lasts: Callable[[int], float], start: int = 0) -> int:
    for done in range(start + 1, 64):
        clock.now += lasts(done - 1)
        if budget.is_spent(done):
            return done
    return 63


@pytest.mark.parametrize(
    ("seconds", "epochs"),
    [(0.5, 1), (5, 5), (7, 7), (7.5, 7), (14.9, 7), (15, 15), (30.9, 15), (31, 31), (62, 31), (64, 63)],
)
def test_it_stops_at_the_last_low_that_the_seconds_reach(seconds: float, epochs: int, clock: Clock) -> None:
    assert stops_after(TimeBudget(seconds, clock(), LOWS), clock, lambda epoch: 1) == epochs


def test_a_period_is_judged_by_the_one_before_it(clock: Clock) -> None:
    """Warm-up epochs are quick; at the low after 15 the mean since the low before tells what the next ones cost."""
    assert stops_after(TimeBudget(60, clock(), LOWS), clock, lambda epoch: 1 if epoch < 10 else 4) == 15


def test_where_epochs_get_slower_it_stops_after_that_in_which_the_seconds_are_over(clock: Clock) -> None:
    assert stops_after(TimeBudget(40, clock(), LOWS), clock, lambda epoch: 1 if epoch < 15 else 4) == 22


def test_a_training_that_is_gone_on_with_is_measured_from_there(clock: Clock) -> None:
    assert stops_after(TimeBudget(12, clock(), LOWS, epochs_done=7), clock, lambda epoch: 1, start=7) == 15
    assert stops_after(TimeBudget(24, clock(), LOWS, epochs_done=7), clock, lambda epoch: 1, start=7) == 31


def test_a_consolidation_is_left_at_a_low_which_then_predicts(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    learner, left = fed(), fed()
    assert epochs_within(learner, 20, clock, lambda epoch: 1) == 15
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


def test_one_that_was_saved_may_be_gone_on_with_for_some_seconds(clock: Clock, tmp_path: Path) -> None:
    learner = fed()
    for epoch in learner.consolidation(63, warn_if_left=False):
        if epoch == 6:
            learner.save(tmp_path)
            break
    loaded = Learner.load(tmp_path, device="cpu")
    assert epochs_within(loaded, 10, clock, lambda epoch: 1) == 15


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

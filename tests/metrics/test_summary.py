"""The summary figures by hand, and that a new metric is a new file."""

from __future__ import annotations

import math
from typing import Any

import pytest

from puridiver.metrics import METRICS, Record


def record(groups: list[list[float]], **task: Any) -> Record:
    return Record({"event": "task", "task": t, "group_accuracy": row, **task} for t, row in enumerate(groups))


def curve(*points: tuple[int, float], name: str = "accuracy") -> Record:
    return Record({"event": "anytime", "seen": seen, name: value} for seen, value in points)


def test_forgetting_counts_from_the_best_since_a_tasks_end_and_may_be_negative():
    # Task 0: best 0.9 before the end, 0.7 at the end. Task 1: 0.8, then 0.5. The last task cannot be forgotten.
    of = METRICS["forgetting"].of
    assert of(record([[0.9, 0.1, 0.0], [0.6, 0.8, 0.1], [0.7, 0.5, 0.9]])) == pytest.approx((0.2 + 0.3) / 2)
    assert of(record([[0.5, 0.9], [0.8, 0.2]])) == pytest.approx(-0.3)
    # What task 1 had before its own end does not count.
    assert of(record([[0.5, 0.9, 0], [0.4, 0.6, 0], [0.3, 0.5, 0.7]])) == pytest.approx((0.2 + 0.1) / 2)
    assert math.isnan(of(record([[0.4]])))


def test_the_anytime_area_by_hand():
    of = METRICS["anytime_area"].of
    assert of(curve((10, 0.2), (20, 0.4), (20, 0.8), (40, 0.6))) == pytest.approx((10 * 0.3 + 0 + 20 * 0.7) / 30)
    straight = [(seen, 0.1 + seen / 1000) for seen in (100, 130, 400, 700)]
    assert of(curve(*straight)) == pytest.approx(0.1 + 0.4)
    assert of(curve((5, 0.3))) == 0.3
    assert math.isnan(of(curve()))
    seen = METRICS["anytime_seen_area"].of  # nan: no test image of a class that has come yet
    assert seen(curve((0, math.nan), (10, 0.2), (20, 0.4), name="seen_accuracy")) == pytest.approx(0.3)


def test_the_worst_consolidation_is_the_largest_loss_from_just_before_to_just_after():
    of = METRICS["worst_consolidation"].of
    points = [(5, 0.9), (10, 0.2), (20, 0.8), (25, 0.1)]  # before training on the memory, at 10 and 20
    tasks = [{"event": "task", "task": t, "seen": s, "accuracy": a} for t, (s, a) in enumerate([(10, 0.5), (20, 0.7)])]
    assert of(Record([*curve(*points), *tasks])) == pytest.approx(-0.1)
    assert of(Record([*curve(*points), *tasks[:1]])) == pytest.approx(0.3)
    assert math.isnan(of(Record(tasks)))  # nothing was measured before


def test_accuracies_over_the_tasks_and_the_best_epoch():
    tasks = [
        {"event": "task", "task": t, "accuracy": a, "seen_accuracy": s, "live_accuracy": t / 4}
        for t, (a, s) in enumerate([(0.2, math.nan), (0.4, 0.8), (0.9, 0.6)])
    ]
    epochs = [{"event": "epoch", "task": t, "accuracy": a} for t, a in ((1, 0.95), (2, 0.5), (2, 0.7))]
    found = {name: METRICS[name].of(Record(epochs + tasks)) for name in METRICS if "accuracy" in name}
    assert found == {
        "average_accuracy": pytest.approx(0.5), "average_seen_accuracy": pytest.approx(0.7), "last_accuracy": 0.9,
        "best_epoch_accuracy": 0.7, "live_accuracy": 0.5,
    }  # fmt: skip
    assert math.isnan(METRICS["best_epoch_accuracy"].of(Record(tasks)))

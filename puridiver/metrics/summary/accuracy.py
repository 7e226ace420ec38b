"""Accuracy at the end, over the tasks and over the whole stream."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from puridiver.metrics.base import Metric, Record, mean


class LastAccuracy(Metric):
    """The headline: accuracy after all tasks."""

    name, title = "last_accuracy", "last accuracy"

    def of(self, record: Record) -> float:
        return record.tasks[-1]["accuracy"]


class AverageAccuracy(Metric):
    """Mean accuracy over the ends of the tasks."""

    name, title = "average_accuracy", "average accuracy over the ends of the tasks"

    def of(self, record: Record) -> float:
        return mean(event["accuracy"] for event in record.tasks)


class AverageSeenAccuracy(Metric):
    """The average accuracy on classes of which a label has come; with disjoint tasks nobody can name the others."""

    name, title = "average_seen_accuracy", "average accuracy on classes seen by then"

    def of(self, record: Record) -> float:
        return mean(event["seen_accuracy"] for event in record.tasks)


class AnytimeArea(Metric):
    """Mean accuracy over the whole stream: the area under the curve by trapezoids, over its width."""

    name, title = "anytime_area", "anytime accuracy over the whole stream"

    def of(self, record: Record) -> float:
        return area(record.series("accuracy"))


class AnytimeSeenArea(Metric):
    """The anytime accuracy on classes of which a label has come."""

    name, title = "anytime_seen_area", "anytime accuracy on classes seen by then"

    def of(self, record: Record) -> float:
        return area(record.series("seen_accuracy"))


class BestEpochAccuracy(Metric):
    """The best memory epoch of the last task, chosen by looking at the evaluation: not a fair figure."""

    name, title = "best_epoch_accuracy", "accuracy of the best memory epoch of the last task"

    def of(self, record: Record) -> float | None:
        last = record.tasks[-1]["task"]
        return max((event["accuracy"] for event in record.of_kind("epoch") if event["task"] == last), default=None)


def area(curve: Sequence[tuple[int, float]]) -> float:
    """The area under points (samples seen, accuracy) over its width; nan without a point.

    Where one moment was measured more than once (before and after memory training) the curve jumps there.
    """
    if not curve:
        return math.nan
    width = curve[-1][0] - curve[0][0]
    if width == 0:
        return curve[-1][1]
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in itertools.pairwise(curve)) / width

"""Accuracy at the end, over the tasks and over the whole stream."""

from __future__ import annotations

import itertools
import math

from puridiver.metrics.base import Metric, Record, mean


class LastAccuracy(Metric):
    """The headline."""

    name, title = "last_accuracy", "last accuracy"

    def of(self, record: Record) -> float:
        return record.tasks[-1]["accuracy"]


class AverageAccuracy(Metric):
    """The mean of the accuracies at the ends of the tasks."""

    name, title = "average_accuracy", "average accuracy over the ends of the tasks"

    def of(self, record: Record) -> float:
        return mean(event["accuracy"] for event in record.tasks)


class AverageSeenAccuracy(Metric):
    """On classes of which a label has come: with disjoint tasks nobody can name the others."""

    name, title = "average_seen_accuracy", "average accuracy on classes seen by then"

    def of(self, record: Record) -> float:
        return mean(event["seen_accuracy"] for event in record.tasks)


class AnytimeArea(Metric):
    """The area under the accuracy curve over the stream, as a share of its width."""

    name, title = "anytime_area", "anytime accuracy over the whole stream"

    def of(self, record: Record) -> float:
        return area(record, "accuracy")


class AnytimeSeenArea(Metric):
    """The same area, on classes of which a label has come."""

    name, title = "anytime_seen_area", "anytime accuracy on classes seen by then"

    def of(self, record: Record) -> float:
        return area(record, "seen_accuracy")


class BestEpochAccuracy(Metric):
    """Chosen by looking at the evaluation: not a fair figure."""

    name, title = "best_epoch_accuracy", "accuracy of the best memory epoch of the last task"

    def of(self, record: Record) -> float | None:
        last = record.tasks[-1]["task"]
        return max((event["accuracy"] for event in record.of_kind("epoch") if event["task"] == last), default=None)


def area(record: Record, name: str) -> float:
    """The area under the curve of a figure over samples seen, by trapezoids, over its width.

    Where one moment was measured twice (before and after memory training) the curve jumps there.
    """
    points = [(event["seen"], event[name]) for event in record.of_kind("anytime", "task")]
    curve = [point for point in points if not math.isnan(point[1])]  # nan: no test image of a class that has come
    if not curve or curve[0][0] == curve[-1][0]:
        return curve[-1][1] if curve else math.nan
    pairs = itertools.pairwise(curve)
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairs) / (curve[-1][0] - curve[0][0])

"""Accuracy at the end, over the tasks and over the whole stream, and what is lost of earlier tasks."""

from __future__ import annotations

import itertools
import math

from puridiver.metrics.base import Record, mean, metric


@metric("last accuracy")
def last_accuracy(record: Record) -> float:
    """The headline."""
    return record.tasks[-1]["accuracy"]


@metric("average accuracy over the ends of the tasks")
def average_accuracy(record: Record) -> float:
    """The mean of the accuracies at the ends of the tasks."""
    return mean(event["accuracy"] for event in record.tasks)


@metric("average accuracy on classes seen by then")
def average_seen_accuracy(record: Record) -> float:
    """On classes of which a label has come: with disjoint tasks nobody can name the others."""
    return mean(event["seen_accuracy"] for event in record.tasks)


@metric("anytime accuracy over the whole stream")
def anytime_area(record: Record) -> float:
    """The area under the accuracy curve over the stream, as a share of its width."""
    return area(record, "accuracy")


@metric("anytime accuracy on classes seen by then")
def anytime_seen_area(record: Record) -> float:
    """The same area, on classes of which a label has come."""
    return area(record, "seen_accuracy")


@metric("accuracy of the best memory epoch of the last task")
def best_epoch_accuracy(record: Record) -> float | None:
    """Chosen by looking at the evaluation: not a fair figure."""
    last = record.tasks[-1]["task"]
    return max((event["accuracy"] for event in record.of_kind("epoch") if event["task"] == last), default=None)


@metric("forgetting of earlier tasks", better="lower")
def forgetting(record: Record) -> float:
    """Mean over earlier tasks of (best accuracy on its classes since its end - accuracy at the end)."""
    after = accuracies_on_tasks(record)
    last = len(after) - 1
    return mean(max(row[t] for row in after[t:last]) - after[last][t] for t in range(last))


@metric("backward transfer (BWT)")
def backward_transfer(record: Record) -> float:
    """Mean over earlier tasks of (accuracy on its classes at the end - just after it).

    BWT of Lopez-Paz and Ranzato, "Gradient episodic memory" (NeurIPS 2017), with a task's major classes for its test
    set.
    """
    after = accuracies_on_tasks(record)
    return mean(after[-1][t] - after[t][t] for t in range(len(after) - 1))


def accuracies_on_tasks(record: Record) -> list[list[float]]:
    """Row: after which task. Column: on which task's major classes."""
    return [event["group_accuracy"] for event in record.tasks]


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

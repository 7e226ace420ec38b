"""Accuracy over time as pure functions of predictions: last, average, anytime, forgetting, transfer, per class."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor


def confusion_matrix(predicted: Tensor, true: Tensor, n_classes: int) -> Tensor:
    """Counts (C, C): row the true class, column the predicted one."""
    return (true * n_classes + predicted).bincount(minlength=n_classes**2).view(n_classes, n_classes)


def accuracy(confusion: Tensor) -> float:
    """Share of right predictions; nan without any."""
    total = int(confusion.sum())
    return int(confusion.diagonal().sum()) / total if total else float("nan")


def class_accuracies(confusion: Tensor) -> list[float]:
    """Recall of each class; nan for a class without test images."""
    return (confusion.diagonal().double() / confusion.sum(dim=1)).tolist()


def group_accuracies(confusion: Tensor, groups: Sequence[Sequence[int]]) -> list[float]:
    """Accuracy on the test images of each group of classes (the major classes of each task)."""
    return [accuracy_of_rows(confusion, list(group)) for group in groups]


def accuracy_of_rows(confusion: Tensor, classes: list[int]) -> float:
    rows = torch.tensor(classes, dtype=torch.int64)
    total = int(confusion[rows].sum())
    return int(confusion[rows, rows].sum()) / total if total else float("nan")


def forgetting(after_task: Sequence[Sequence[float]]) -> float:
    """Mean over earlier tasks of (best accuracy on its classes since its end - accuracy at the end).

    `after_task[i][t]` is the accuracy on task t's major classes after task i. Nan for a single task.
    """
    last = len(after_task) - 1
    drops = [max(row[t] for row in after_task[t:last]) - after_task[last][t] for t in range(last)]
    known = [drop for drop in drops if not math.isnan(drop)]  # a group of classes may have no test image
    return sum(known) / len(known) if known else float("nan")


def backward_transfer(after_task: Sequence[Sequence[float]]) -> float:
    """Mean over earlier tasks of (accuracy on its classes at the end - just after it); below 0 where they are lost.

    BWT of Lopez-Paz and Ranzato, "Gradient episodic memory" (NeurIPS 2017), with task t's major classes for its test
    set. `after_task` is that of `forgetting`, which counts from the best accuracy since instead.
    """
    last = len(after_task) - 1
    changes = [after_task[last][t] - after_task[t][t] for t in range(last)]
    known = [change for change in changes if not math.isnan(change)]
    return sum(known) / len(known) if known else float("nan")


def anytime_area(curve: Sequence[tuple[int, float]]) -> float:
    """Mean accuracy over the stream: the area under (samples seen, accuracy) by trapezoids, over its width.

    Where one moment was measured more than once (before and after training on the memory) the curve jumps there.
    """
    if not curve:
        return float("nan")
    width = curve[-1][0] - curve[0][0]
    if width == 0:
        return curve[-1][1]
    pairs = itertools.pairwise(curve)
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairs) / width

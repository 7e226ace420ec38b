"""Accuracy at the end, over the tasks, over the whole stream and on its samples; what is lost of earlier tasks."""

import numpy as np

from puridiver.metrics import Record, metric


@metric("last accuracy")
def last_accuracy(record: Record) -> float:
    """The headline."""
    return record.values("accuracy")[-1]


@metric("average accuracy over the ends of the tasks")
def average_accuracy(record: Record) -> float:
    """The mean of the accuracies at the ends of the tasks."""
    return mean(record.values("accuracy"))


@metric("average accuracy on classes seen by then")
def average_seen_accuracy(record: Record) -> float:
    """On classes of which a label has come: with disjoint tasks nobody can name the others."""
    return mean(record.values("seen_accuracy"))


@metric("anytime accuracy over the whole stream")
def anytime_area(record: Record) -> float:
    """The area under the accuracy curve over the stream, as a share of its width."""
    return area(record, "accuracy")


@metric("anytime accuracy on classes seen by then (A_AUC)")
def anytime_seen_area(record: Record) -> float:
    """The same area, on classes of which a label has come: A_AUC of the i-Blurry protocol (Koh et al., 2022)."""
    return area(record, "seen_accuracy")


@metric("live accuracy")
def live_accuracy(record: Record) -> float:
    """The share of stream samples whose true label was predicted before the sample was learnt (prequential)."""
    return record.values("live_accuracy")[-1]


@metric("accuracy of the best memory epoch of the last task")
def best_epoch_accuracy(record: Record) -> float:
    """Chosen by looking at the evaluation: not a fair figure."""
    judged = record.values("accuracy", "epoch")[record.values("task", "epoch") == record.values("task")[-1]]
    return judged.max() if len(judged) else np.nan


@metric("worst change of accuracy by a memory training")
def worst_consolidation(record: Record) -> float:
    """Accuracy just after the memory training that ends a task less that just before it, lowest of all tasks."""
    before = dict(zip(record.values("seen", "anytime"), record.values("accuracy", "anytime"), strict=True))
    after = zip(record.values("seen"), record.values("accuracy"), strict=True)
    changes = [accuracy - before[seen] for seen, accuracy in after if seen in before]
    return min(changes, default=np.nan)


@metric("forgetting of earlier tasks", better="lower")
def forgetting(record: Record) -> float:
    """Mean over earlier tasks of (best accuracy on its classes since its end - accuracy at the end)."""
    after = record.values("group_accuracy")  # row: after which task, column: on which task's major classes
    earlier = len(after) - 1
    since_its_end = np.where(np.tri(earlier, dtype=bool), after[:-1, :earlier], -np.inf)
    return mean(since_its_end.max(axis=0, initial=-np.inf) - after[-1, :earlier])


def mean(values: np.ndarray) -> float:
    """The mean of the values that are not nan; nan without any."""
    known = values[~np.isnan(values)]
    return known.mean() if len(known) else np.nan


def area(record: Record, name: str) -> float:
    """The area under the curve of a figure over samples seen, by trapezoids, over its width.

    Where one moment was measured twice (before and after memory training) the curve jumps there.
    """
    seen, figure = record.values("seen", "anytime", "task"), record.values(name, "anytime", "task")
    known = ~np.isnan(figure)  # nan: no test image of a class that has come
    x, y = seen[known], figure[known]
    if not len(x) or x[0] == x[-1]:
        return y[-1] if len(y) else np.nan
    return (np.diff(x) * (y[1:] + y[:-1]) / 2).sum() / (x[-1] - x[0])

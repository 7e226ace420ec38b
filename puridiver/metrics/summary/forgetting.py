"""What is lost of earlier tasks. Accuracies are those on each task's major classes after each task."""

from __future__ import annotations

from puridiver.metrics.base import Metric, Record, mean


class Forgetting(Metric):
    """Mean over earlier tasks of (best accuracy on its classes since its end - accuracy at the end)."""

    name, title, better = "forgetting", "forgetting of earlier tasks", "lower"

    def of(self, record: Record) -> float:
        after = [event["group_accuracy"] for event in record.tasks]
        last = len(after) - 1
        return mean(max(row[t] for row in after[t:last]) - after[last][t] for t in range(last))


class BackwardTransfer(Metric):
    """Mean over earlier tasks of (accuracy on its classes at the end - just after it).

    BWT of Lopez-Paz and Ranzato, "Gradient episodic memory" (NeurIPS 2017), with a task's major classes for its test
    set.
    """

    name, title = "backward_transfer", "backward transfer (BWT)"

    def of(self, record: Record) -> float:
        after = [event["group_accuracy"] for event in record.tasks]
        return mean(after[-1][t] - after[t][t] for t in range(len(after) - 1))

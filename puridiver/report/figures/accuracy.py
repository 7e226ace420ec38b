"""Accuracy over the stream."""

from __future__ import annotations

from collections.abc import Sequence

from puridiver.report.figures._lines import TASK_BANDS, curves, evaluated_on
from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.reading import Run


class Accuracy(Figure):
    name, title = "accuracy", "Accuracy over the stream"
    order, of_run, of_several = 20, True, True

    def draw(self, runs: Sequence[Run]) -> Drawing:
        right = "correctly" if all(run.knows_all_truth for run in runs) else "as labelled"
        caption = (
            f"The share of {evaluated_on(runs)} images that the learner classifies {right}: while a task streams in, "
            f"and after the memory training at its end. {TASK_BANDS}"
        )
        return Drawing(caption, *curves(runs, "accuracy", f"{evaluated_on(runs).capitalize()} accuracy, %"))

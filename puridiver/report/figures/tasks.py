"""Accuracy and purity after each task."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pandas as pd

from puridiver.report.figures._lines import curves, evaluated_on, mark_stream
from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.reading import Run


class Tasks(Figure):
    name, title = "tasks", "After each task"
    order, of_several = 10, True

    def draw(self, runs: Sequence[Run]) -> Drawing:
        accuracy = f"{evaluated_on(runs).capitalize()} accuracy, %"
        left, accuracies = curves(runs, "accuracy", accuracy, by_task=True)
        right, purities = curves(runs, "memory_purity", "Purity of the memory, %", mark_stream, by_task=True)
        panels = [panel for pair in itertools.zip_longest(left, right) for panel in pair if panel is not None]
        caption = "Each line is the mean of a method over its seeds; the band is one standard deviation wide each way."
        return Drawing(caption, panels, pd.concat([accuracies, purities]))

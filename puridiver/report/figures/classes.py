"""Accuracy of each class after each task."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

from puridiver.report.figures._lines import evaluated_on
from puridiver.report.figures._matrix import NAMED_CLASSES, height_of, paint_matrix
from puridiver.report.figures.base import RunFigure
from puridiver.report.figures.mix import by_first_task
from puridiver.report.reading import Run
from puridiver.report.style import INK, Axes, Panel


class Classes(RunFigure):
    name, title, order = "classes", "Accuracy of each class", 30

    def caption(self, runs: Sequence[Run]) -> str:
        return "In percent of the class. A stroke marks the task whose stream is mainly of this class."

    def panels(self, run: Run) -> list[Panel]:
        return [Panel(f"{evaluated_on([run]).capitalize()} accuracy, %", partial(_paint, run), height_of(run))]

    def table(self, run: Run) -> pd.DataFrame:
        """A row a class in order of its first task as a major class, a column a task; nan without test images."""
        columns = {f"task {event['task'] + 1}": np.array(event["class_accuracy"], float) * 100 for event in run.tasks}
        return pd.DataFrame({"class": run.class_names, **columns}).iloc[by_first_task(run.manifest)]


def _paint(run: Run, axes: Axes) -> None:
    table, n_tasks = Classes().table(run), len(run.tasks)
    paint_matrix(table.iloc[:, 1:].to_numpy(), list(table["class"]), [str(t + 1) for t in range(n_tasks)], axes)
    for task, group in enumerate(run.manifest.major_classes):
        places = np.flatnonzero(table.index.isin(group))
        axes.plot([task - 0.42] * len(places), places, color=INK, marker="|", linestyle="", markeredgewidth=2)
    axes.set(xlabel="after task", ylabel="" if len(table) <= NAMED_CLASSES else "classes, in order of their tasks")

"""Accuracy of each class after each task."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

from puridiver.report.figures._lines import evaluated_on
from puridiver.report.figures._matrix import NAMED_CLASSES, paint_matrix
from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.figures.mix import by_first_task
from puridiver.report.reading import Run, representatives
from puridiver.report.style import INK, PANEL, Axes, Panel


def _table(run: Run) -> pd.DataFrame:
    """A row a class in order of its first task as a major class, a column a task; nan without test images."""
    shares = pd.DataFrame([event["class_accuracy"] for event in run.tasks], dtype=float).T * 100
    return shares.iloc[by_first_task(run.manifest)].set_axis(range(1, len(run.tasks) + 1), axis=1)


def _paint(run: Run, axes: Axes) -> None:
    shares = _table(run)
    paint_matrix(shares.to_numpy(), [run.class_names[c] for c in shares.index], list(map(str, shares.columns)), axes)
    for task, group in enumerate(run.manifest.major_classes):
        places = np.flatnonzero(shares.index.isin(group))
        axes.plot([task - 0.42] * len(places), places, color=INK, marker="|", linestyle="", markeredgewidth=2)
    axes.set(xlabel="after task", ylabel="" if len(shares) <= NAMED_CLASSES else "classes, in order of their tasks")


class Classes(Figure):
    name, title = "classes", "Accuracy of each class"
    order, of_run, each_run = 30, True, True

    def draw(self, runs: Sequence[Run]) -> Drawing:
        chosen, panels, tables = representatives(runs), [], []
        for label, run in chosen.items():
            title = f"{evaluated_on([run]).capitalize()} accuracy, %" + f", {label}" * (len(chosen) > 1)
            height = max(PANEL[1], 0.9 + 0.2 * min(len(run.class_names), NAMED_CLASSES))
            panels.append(Panel(title, partial(_paint, run), height))
            table = _table(run).rename(columns="task {}".format)
            tables.append(table.assign(run=label).set_axis([run.class_names[c] for c in table.index]))
        caption = "In percent of the class. A stroke marks the task whose stream is mainly of this class."
        return Drawing(caption, panels, pd.concat(tables).rename_axis("class").reset_index())

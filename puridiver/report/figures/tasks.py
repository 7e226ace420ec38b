"""Accuracy and purity after each task."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pandas as pd

from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.figures.lines import Curve, accuracy_title, line_panels, mark_stream_purity
from puridiver.report.figures.memory import PURITY
from puridiver.report.reading import Run


def _by_task(run: Run, figure: str) -> Curve:
    return [(event["task"] + 1, 100 * event[figure]) for event in run.tasks if event.get(figure) is not None]


class Tasks(Figure):
    name, title = "tasks", "Accuracy and purity after each task"
    order, of_several = 10, True

    def draw(self, runs: Sequence[Run]) -> Drawing:
        most = max(len(run.tasks) for run in runs)
        axes: dict[str, Any] = {"xlabel": "task", "ylim": (0, 101), "xticks": range(1, most + 1, -(-most // 10))}
        left, accuracies = line_panels(
            runs, accuracy_title(runs), lambda run: _by_task(run, "accuracy"), by_x=True, markers=True, **axes
        )
        right, purities = line_panels(
            runs,
            PURITY,
            lambda run: _by_task(run, "memory_purity"),
            mark_stream_purity,
            by_x=True,
            markers=True,
            **axes,
        )
        panels = [panel for pair in itertools.zip_longest(left, right) for panel in pair if panel is not None]
        caption = "Each line is the mean of a method over its seeds; the band is one standard deviation wide each way."
        title = self.title if right else "Accuracy after each task"
        return Drawing(title, caption, panels, pd.concat([accuracies, purities]))

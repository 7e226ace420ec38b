"""Accuracy against training time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pandas as pd

from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.reading import Facet, Run, facets
from puridiver.report.style import Axes, Panel, line_style

COLUMNS = ["method", "training seconds", "standard deviation", "last accuracy %", "standard deviation %", "device"]


def _times(facet: Facet) -> pd.DataFrame:
    """A row for each group: mean and deviation of its seconds and of its accuracy."""
    rows = []
    for group in facet.groups:
        seconds = pd.Series([run.training_seconds for run in group.runs])
        accuracy = 100 * pd.Series([run.summary["last_accuracy"] for run in group.runs])
        devices = ", ".join(sorted({run.summary["device"] for run in group.runs}))
        rows.append((group.label, seconds.mean(), seconds.std(), accuracy.mean(), accuracy.std(), devices))
    return pd.DataFrame(rows, columns=COLUMNS)


def _paint(facet: Facet, axes: Axes) -> None:
    points, longest = _times(facet).fillna(0), 0.0
    for group, (label, x, dx, y, dy, _) in zip(facet.groups, points.itertuples(index=False), strict=True):
        style = {**line_style(group.number), "linestyle": "", "markersize": 8}
        axes.errorbar(x, y, dy, dx, capsize=2, elinewidth=1, label=label, **style)
        longest = max(longest, x + dx)
    axes.set(xlabel="seconds of training", xlim=(0, 1.06 * longest or 1), ylim=(0, 101))


class Time(Figure):
    name, title = "time", "Accuracy against training time"
    order, of_several = 30, True

    def draw(self, runs: Sequence[Run]) -> Drawing:
        found = facets(runs)
        caption = (
            "Up and left is better. Seconds are of training alone, without evaluation; compare them only between runs "
            "on one device."
        )
        panels = [Panel(f"Last accuracy, %{facet.title}", partial(_paint, facet)) for facet in found]
        return Drawing(caption, panels, pd.concat(map(_times, found)))

"""Accuracy against training time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.reading import Facet, Group, Run, facets
from puridiver.report.style import Panel, line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _spread(group: Group) -> dict[str, float]:
    seconds = pd.Series([run.training_seconds for run in group.runs])
    accuracy = 100 * pd.Series([run.summary["last_accuracy"] for run in group.runs])
    return {"x": seconds.mean(), "dx": seconds.std(), "y": accuracy.mean(), "dy": accuracy.std()}


def _paint(facet: Facet, axes: Axes) -> None:
    spreads = pd.DataFrame([_spread(group) for group in facet.groups]).fillna(0)
    for group, (_, at) in zip(facet.groups, spreads.iterrows(), strict=True):
        axes.errorbar(at.x, at.y, at.dy, at.dx, capsize=2, elinewidth=1, label=group.label,
                      **{**line_style(group.number), "linestyle": "", "markersize": 8})  # fmt: skip
    longest = (spreads.x + spreads.dx).max()
    axes.set(xlabel="seconds of training", xlim=(0, 1.06 * longest or 1), ylim=(0, 101))


class Time(Figure):
    name, title = "time", "Accuracy against training time"
    order, of_several = 30, True

    def draw(self, runs: Sequence[Run]) -> Drawing:
        found = facets(runs)
        numbers = pd.DataFrame([
            {"method": group.label, "training seconds": at["x"], "standard deviation": at["dx"],
             "last accuracy %": at["y"], "standard deviation %": at["dy"],
             "device": ", ".join(sorted({run.summary.get("device", "unknown") for run in group.runs}))}
            for facet in found for group in facet.groups for at in [_spread(group)]
        ])  # fmt: skip
        caption = (
            "Up and left is better. Seconds are of training alone, without evaluation; compare them only between runs "
            "on one device."
        )
        panels = [Panel(f"Last accuracy, %{facet.title}", partial(_paint, facet)) for facet in found]
        return Drawing(self.title, caption, panels, numbers)

"""Lines with the spread over seeds: what most figures are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pandas as pd

from puridiver.report.reading import Facet, Run, facets
from puridiver.report.style import Axes, Panel, line_style

Curve = Sequence[tuple[float, float]]  # points x, y
Decorate = Callable[[Axes, Facet], None]


def line_panels(
    runs: Sequence[Run], title: str, points: Callable[[Run], Curve], *decorations: Decorate, by_x: bool = False,
    ignore: str = "", **settings: Any,
) -> tuple[list[Panel], pd.DataFrame]:  # fmt: skip
    """Panels of one line a group, its mean over seeds in a band of one standard deviation; and the numbers.

    Seeds are averaged point by point, or with `by_x`, where x is equal and points have markers. `settings` are those
    of `Axes.set`.
    """
    panels, numbers = [], [pd.DataFrame()]
    for facet in facets(runs, lambda run: bool(points(run)), ignore):
        lines = []
        for group in facet.groups:
            rows = [(i, x, y) for run in group.runs for i, (x, y) in enumerate(points(run))]
            same = pd.DataFrame(rows, columns=["point", "x", "y"]).groupby("x" if by_x else "point")
            line = pd.DataFrame({"x": same.x.mean(), "mean": same.y.mean(), "sd": same.y.std()})
            lines.append(line.assign(figure=title + facet.title, line=group.label))
        panels.append(Panel(title + facet.title, partial(_paint, facet, lines, decorations, by_x, settings)))
        numbers += lines
    table = pd.concat(numbers, ignore_index=True).reindex(columns=["figure", "line", "x", "mean", "sd"])
    return panels, table.rename(columns={"x": settings.get("xlabel", "x"), "sd": "standard deviation"})


def _paint(
    facet: Facet, lines: Sequence[pd.DataFrame], decorations: Sequence[Decorate], markers: bool,
    settings: dict[str, Any], axes: Axes,
) -> None:  # fmt: skip
    for group, line in zip(facet.groups, lines, strict=True):
        style, mean, deviation = line_style(group.number), line["mean"], line.sd.fillna(0)
        style["marker"] = style["marker"] if markers else ""
        axes.plot(line.x, mean, **style, label=group.label, clip_on=not markers)
        axes.fill_between(line.x, mean - deviation, mean + deviation, color=style["color"], alpha=0.15, linewidth=0)
    for decorate in decorations:
        decorate(axes, facet)
    axes.set(**settings)

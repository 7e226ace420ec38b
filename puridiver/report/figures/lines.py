"""Lines with the spread over seeds: what most figures are made of."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from puridiver.report.reading import Facet, Group, Run, facets
from puridiver.report.style import INK, Panel, line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curve = Sequence[tuple[float, float]]  # points x, y
SEEN = "samples of the stream seen"
TASK_BANDS = "Grey bands mark tasks."


def curve(run: Run, figure: str, scale: float = 100) -> Curve:
    """A figure at every evaluation of the stream, by samples seen; points without it are left out."""
    return [(e["seen"], scale * e[figure]) for e in run.of_kind("anytime", "task") if e.get(figure) is not None]


def accuracy_title(runs: Sequence[Run]) -> str:
    return f"{evaluated_on(runs).capitalize()} accuracy, %"


def evaluated_on(runs: Sequence[Run]) -> str:
    """The part of the data that accuracy is measured on: "test", "validation", or both where runs differ."""
    return " or ".join(sorted({run.summary["evaluated_on"] for run in runs}))


def line_panels(
    runs: Sequence[Run],
    title: str,
    points: Callable[[Run], Curve],
    decorate: Callable[[Axes, Facet], None] = lambda axes, facet: None,
    by_x: bool = False,
    markers: bool = False,
    ignore: str = "",
    **settings: Any,
) -> tuple[list[Panel], pd.DataFrame]:
    """Panels of one line a group, its mean over seeds in a band of one standard deviation; and the numbers.

    Seeds are averaged point by point, or with `by_x` where x is equal. `settings` are those of `Axes.set`.
    """
    panels, numbers = [], []
    for facet in facets(runs, lambda run: bool(points(run)), ignore):
        lines = {group.label: _mean(group, points, by_x) for group in (*facet.groups, *facet.others)}
        panels.append(Panel(title + facet.title, partial(_paint, facet, lines, decorate, markers, settings)))
        numbers += [
            pd.DataFrame({"figure": title + facet.title, "line": group.label, **lines[group.label]})
            for group in facet.groups
        ]
    table = pd.concat(numbers, ignore_index=True) if numbers else pd.DataFrame()
    return panels, table.rename(columns={"x": settings.get("xlabel", "x"), "sd": "standard deviation"})


def _mean(group: Group, points: Callable[[Run], Curve], by_x: bool) -> pd.DataFrame:
    """x, mean and sd over the group's runs."""
    rows = [(i, x, y) for run in group.runs for i, (x, y) in enumerate(points(run))]
    frame = pd.DataFrame(rows, columns=["point", "x", "y"])
    found = frame.groupby("x" if by_x else "point", as_index=False).agg(at=("x", "mean"), mean=("y", "mean"),
                                                                      sd=("y", "std"))  # fmt: skip
    return found[["at", "mean", "sd"]].rename(columns={"at": "x"})


def _paint(
    facet: Facet, lines: dict[str, pd.DataFrame], decorate: Callable[[Axes, Facet], None], markers: bool,
    settings: dict[str, Any], axes: Axes,
) -> None:  # fmt: skip
    for number, group in enumerate(facet.others):
        line, label = lines[group.label], None if number else "the other methods"
        axes.plot(line["x"], line["mean"], color=INK, alpha=0.3, linewidth=0.8, zorder=1, label=label)
    for group in facet.groups:
        line, style = lines[group.label], line_style(group.number)
        seeds = f" (mean of {len(group.runs)} seeds)" if len(group.runs) > 1 and not markers else ""
        axes.plot(line["x"], line["mean"], **{**style, "marker": style["marker"] if markers else ""},
                  label=group.label + seeds, clip_on=not markers)  # fmt: skip
        low, high = line["mean"] - line["sd"].fillna(0), line["mean"] + line["sd"].fillna(0)
        axes.fill_between(line["x"], low, high, color=style["color"], alpha=0.15, linewidth=0)
    decorate(axes, facet)
    axes.set(**settings)


def shade_tasks(axes: Axes, facet: Facet) -> None:
    """A grey band for every second task, where all runs have about the same tasks."""
    ends = pd.DataFrame([dict(enumerate([0, *(event["seen"] for event in run.tasks)])) for run in facet.runs])
    steps = ends.diff(axis=1).iloc[:, 1:].min().min()
    if ends.isna().any(axis=None) or (ends.max() - ends.min()).max() > 0.2 * steps:
        return
    for start, end in list(itertools.pairwise(ends.mean()))[1::2]:
        axes.axvspan(start, end, color=INK, alpha=0.07, linewidth=0)


def mark_stream_purity(axes: Axes, facet: Facet) -> None:
    """A dotted line at the share of right labels in the stream."""
    rates = {run.summary["stream_noise"] for run in facet.runs} - {None}
    for number, share in enumerate(sorted({round(100 * (1 - rate), 1) for rate in rates})):
        label = None if number else "right labels in the stream"
        axes.axhline(share, color=INK, linestyle=":", linewidth=1.3, label=label)

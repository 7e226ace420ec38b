"""Lines with their spread over seeds, which several figures draw."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pandas as pd

from puridiver.report.reading import Facet, Run, facets
from puridiver.report.style import INK, Axes, Panel, line_style

Curve = Sequence[tuple[float, float]]  # points x, y
Decorate = Callable[[Axes, Facet], None]
Drawn = tuple[list[Panel], pd.DataFrame]
STREAM: dict[str, Any] = {"xlabel": "samples of the stream seen", "xlim": (0, None)}
TASK_BANDS = "Grey bands mark tasks."


def line_panels(
    runs: Sequence[Run], title: str, points: Callable[[Run], Curve], *decorations: Decorate, by_x: bool = False,
    ignore: str = "", **settings: Any,
) -> Drawn:  # fmt: skip
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


def shade_tasks(axes: Axes, facet: Facet) -> None:
    """A grey band for every second task, where all runs have about the same tasks."""
    ends = pd.DataFrame([dict(enumerate([0, *(event["seen"] for event in run.tasks)])) for run in facet.runs])
    shortest = ends.diff(axis=1).iloc[:, 1:].min().min()
    if ends.isna().any(axis=None) or (ends.max() - ends.min()).max() > 0.2 * shortest:
        return
    for start, end in list(itertools.pairwise(ends.mean()))[1::2]:
        axes.axvspan(start, end, color=INK, alpha=0.07, linewidth=0)


def mark_stream(axes: Axes, facet: Facet) -> None:
    """A dotted line at the share of right labels in the stream."""
    rates = {run.summary["stream_noise"] for run in facet.runs} - {None}
    for number, share in enumerate(sorted({round(100 * (1 - rate), 1) for rate in rates})):
        label = None if number else "right labels in the stream"
        axes.axhline(share, color=INK, linestyle=":", linewidth=1.3, label=label)


def evaluated_on(runs: Sequence[Run]) -> str:
    """The part of the data that accuracy is measured on: "test", "validation", or both where runs differ."""
    return " or ".join(sorted({run.summary["evaluated_on"] for run in runs}))


def curves(runs: Sequence[Run], metric: str, title: str, *decorations: Decorate, by_task: bool = False) -> Drawn:
    """A metric of the events, at every evaluation or after each task; points without it are left out."""
    scale, top = (1, None) if metric == "memory_diversity" else (100, 101)
    most = max(len(run.tasks) for run in runs)
    axes = {"xlabel": "task", "xticks": range(1, most + 1, -(-most // 10))} if by_task else STREAM

    def points(run: Run) -> Curve:
        events = run.tasks if by_task else run.of_kind("anytime", "task")
        known = [event for event in events if event.get(metric) is not None]
        return [(event["task"] + 1 if by_task else event["seen"], scale * event[metric]) for event in known]

    bands = [] if by_task else [shade_tasks]
    return line_panels(runs, title, points, *bands, *decorations, by_x=by_task, ylim=(0, top), **axes)

"""Lines with their spread over seeds: accuracy, purity and diversity over the stream, by task and by time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pandas as pd

from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.reading import Facet, Run, facets
from puridiver.report.style import INK, Axes, Panel, line_style

Curve = Sequence[tuple[float, float]]  # points x, y
Decorate = Callable[[Axes, Facet], None]
Drawn = tuple[list[Panel], pd.DataFrame]
STREAM: dict[str, Any] = {"xlabel": "samples of the stream seen", "xlim": (0, None)}
TASK_BANDS = "Grey bands mark tasks."
PURITY = (
    "Purity is the share of right labels in the memory. Above the dotted line, the memory is cleaner than the stream."
)
TIME_COLUMNS = ["method", "training seconds", "standard deviation", "last accuracy %", "standard deviation %", "device"]


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
        panels.append(Panel(title + facet.title, partial(_paint_lines, facet, lines, decorations, by_x, settings)))
        numbers += lines
    table = pd.concat(numbers, ignore_index=True).reindex(columns=["figure", "line", "x", "mean", "sd"])
    return panels, table.rename(columns={"x": settings.get("xlabel", "x"), "sd": "standard deviation"})


def _paint_lines(
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


def _mark_stream(axes: Axes, facet: Facet) -> None:
    """A dotted line at the share of right labels in the stream."""
    rates = {run.summary["stream_noise"] for run in facet.runs} - {None}
    for number, share in enumerate(sorted({round(100 * (1 - rate), 1) for rate in rates})):
        label = None if number else "right labels in the stream"
        axes.axhline(share, color=INK, linestyle=":", linewidth=1.3, label=label)


def evaluated_on(runs: Sequence[Run]) -> str:
    """The part of the data that accuracy is measured on: "test", "validation", or both where runs differ."""
    return " or ".join(sorted({run.summary["evaluated_on"] for run in runs}))


def _curves(runs: Sequence[Run], figure: str, by_task: bool = False) -> Drawn:
    """A figure of the events, at every evaluation or after each task; points without it are left out."""
    title = {
        "accuracy": f"{evaluated_on(runs).capitalize()} accuracy, %", "memory_purity": "Purity of the memory, %",
        "memory_diversity": "Diversity of the memory",
    }[figure]  # fmt: skip
    scale, top = (1, None) if figure == "memory_diversity" else (100, 101)
    most = max(len(run.tasks) for run in runs)
    axes = {"xlabel": "task", "xticks": range(1, most + 1, -(-most // 10))} if by_task else STREAM

    def points(run: Run) -> Curve:
        events = run.tasks if by_task else run.of_kind("anytime", "task")
        known = [event for event in events if event.get(figure) is not None]
        return [(event["task"] + 1 if by_task else event["seen"], scale * event[figure]) for event in known]

    marks = [] if by_task else [shade_tasks]
    marks += [_mark_stream] * (figure == "memory_purity")
    return line_panels(runs, title, points, *marks, by_x=by_task, ylim=(0, top), **axes)


def _accuracy_and_purity(runs: Sequence[Run], by_task: bool) -> Drawn:
    """Panels of both, side by side."""
    (left, accuracies), (right, purities) = (_curves(runs, name, by_task) for name in ("accuracy", "memory_purity"))
    panels = [panel for pair in itertools.zip_longest(left, right) for panel in pair if panel is not None]
    return panels, pd.concat([accuracies, purities])


class Accuracy(Figure):
    name, title = "accuracy", "Accuracy over the stream"
    order, of_run, of_several = 20, True, True

    def draw(self, runs: Sequence[Run]) -> Drawing:
        right = "correctly" if all(run.knows_all_truth for run in runs) else "as labelled"
        caption = (
            f"The share of {evaluated_on(runs)} images that the learner classifies {right}: while a task streams in, "
            f"and after the memory training at its end. {TASK_BANDS}"
        )
        return Drawing(self.title, caption, *_curves(runs, "accuracy"))


class Memory(Figure):
    name, title, needs = "memory", "The memory over the stream", "data with true labels, to know the memory's purity"
    order, of_run, of_several = 50, True, True

    def usable(self, run: Run) -> bool:
        return run.knows_truth

    def draw(self, runs: Sequence[Run]) -> Drawing:
        (left, purities), (right, more) = (_curves(runs, f"memory_{name}") for name in ("purity", "diversity"))
        diversity = " Diversity is the mean distance between images of one class." * bool(right)
        return Drawing(self.title, f"{PURITY}{diversity} {TASK_BANDS}", left + right, pd.concat([purities, more]))


class Stream(Figure):
    name, title, order = "stream", "Accuracy and purity over the stream", 25

    def draw(self, runs: Sequence[Run]) -> Drawing:
        return Drawing(self.title, f"{PURITY} {TASK_BANDS}", *_accuracy_and_purity(runs, by_task=False))


class Tasks(Figure):
    name, title = "tasks", "Accuracy and purity after each task"
    order, of_several = 10, True

    def draw(self, runs: Sequence[Run]) -> Drawing:
        caption = "Each line is the mean of a method over its seeds; the band is one standard deviation wide each way."
        title = self.title if any(run.knows_truth for run in runs) else "Accuracy after each task"
        return Drawing(title, caption, *_accuracy_and_purity(runs, by_task=True))


def _times(facet: Facet) -> pd.DataFrame:
    """A row for each group: mean and deviation of its seconds and of its accuracy."""
    rows = []
    for group in facet.groups:
        seconds = pd.Series([run.training_seconds for run in group.runs])
        accuracy = 100 * pd.Series([run.summary["last_accuracy"] for run in group.runs])
        devices = ", ".join(sorted({run.summary["device"] for run in group.runs}))
        rows.append((group.label, seconds.mean(), seconds.std(), accuracy.mean(), accuracy.std(), devices))
    return pd.DataFrame(rows, columns=TIME_COLUMNS)


def _paint_times(facet: Facet, axes: Axes) -> None:
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
        panels = [Panel(f"Last accuracy, %{facet.title}", partial(_paint_times, facet)) for facet in found]
        return Drawing(self.title, caption, panels, pd.concat(map(_times, found)))

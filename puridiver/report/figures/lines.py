"""Lines with their spread over seeds: metrics over the stream, the tasks or alpha; and accuracy against time."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from puridiver.report.figures import Drawing, Figure
from puridiver.report.reading import Group, Run, by_column, grouped
from puridiver.report.style import INK, Axes, Panel, colour, line_style

Points = Sequence[tuple[float, float]]  # x, y
Decorate = Callable[[Axes, list[Group]], None]
Drawn = tuple[list[Panel], pd.DataFrame]
STREAM: dict[str, Any] = {"xlabel": "samples of the stream seen", "xlim": (0, None)}
TASK_BANDS = "Grey bands mark tasks."
CLASSES_AT = 103  # %: above the curves


def line_panels(
    runs: Sequence[Run], title: str, points: Callable[[Run], Points], *decorations: Decorate, by_x: bool = False,
    markers: bool = False, ignore: str = "", **settings: Any,
) -> Drawn:  # fmt: skip
    """Panels of one line a group, its mean over seeds with the standard deviation; and the numbers.

    Seeds are averaged point by point, or with `by_x`, where x is equal. `settings` are those of `Axes.set`.
    """
    panels, numbers = list[Panel](), list[pd.DataFrame]()
    drawn = [group for group in grouped(runs, ignore) if any(map(points, group.runs))]
    for column, groups in by_column(drawn).items():
        lines = []
        for group in groups:
            rows = [(i, x, y) for run in group.runs for i, (x, y) in enumerate(points(run))]
            same = pd.DataFrame(rows, columns=["point", "x", "y"]).groupby("x" if by_x else "point")
            line = pd.DataFrame({"x": same.x.mean(), "mean": same.y.mean(), "sd": same.y.std()})
            lines.append(line.assign(figure=title + column, line=group.label))
        panels.append(Panel(title + column, partial(_paint, groups, lines, decorations, markers, settings)))
        numbers += lines
    table = pd.concat(numbers or [pd.DataFrame()]).reindex(columns=["figure", "line", "x", "mean", "sd"])
    return panels, table.rename(columns={"x": settings["xlabel"], "sd": "standard deviation"})


def _paint(
    groups: list[Group], lines: list[pd.DataFrame], decorations: Sequence[Decorate], markers: bool,
    settings: dict[str, Any], axes: Axes,
) -> None:  # fmt: skip
    for group, line in zip(groups, lines, strict=True):
        style, low, high = line_style(group.number), line["mean"] - line.sd, line["mean"] + line.sd
        if markers:
            axes.errorbar(line.x, line["mean"], line.sd, capsize=2, elinewidth=1, label=group.label, **style)
        else:
            axes.plot(line.x, line["mean"], label=group.label, **{**style, "marker": ""})
            axes.fill_between(line.x, low, high, color=style["color"], alpha=0.15, linewidth=0)
    for decorate in decorations:
        decorate(axes, groups)
    axes.set(**settings)


def shade_tasks(axes: Axes, groups: list[Group]) -> None:
    """A grey band for every second task, where all runs have as many."""
    ends = pd.DataFrame([[0, *(event["seen"] for event in run.tasks)] for group in groups for run in group.runs])
    if not ends.isna().any(axis=None):
        for start, end in list(itertools.pairwise(ends.mean()))[1::2]:
            axes.axvspan(start, end, color=INK, alpha=0.07, linewidth=0)


def mark_stream(axes: Axes, groups: list[Group]) -> None:
    """A dotted line at the share of right labels in the stream."""
    rates = {run.summary["stream_noise"] for group in groups for run in group.runs} - {None}
    for number, share in enumerate(sorted({round(100 * (1 - rate), 1) for rate in rates})):
        label = None if number else "right labels in the stream"
        axes.axhline(share, color=INK, linestyle=":", linewidth=1.3, label=label)


def of_one_stream(runs: Sequence[Run]) -> bool:
    return len({run.summary["stream_hash"] for run in runs}) == 1


def mark_classes(axes: Axes, groups: list[Group]) -> None:
    """Name above each task the classes that become frequent in it, or count them, if all runs share a stream.

    A class is frequent in a task that has at least half as many samples of it as its largest task. Its first sample
    would not do: wrong labels name most classes at once.
    """
    runs = [run for group in groups for run in group.runs]
    if not of_one_stream(runs):
        return
    run, counts = runs[0], runs[0].manifest.counts()
    first = (counts >= np.maximum(counts.max(axis=1, keepdims=True) / 2, 1)).argmax(axis=1)
    ends = [event["seen"] for event in run.tasks]
    for task, (start, end) in enumerate(itertools.pairwise([0, *ends])):
        new = [run.class_names[c] for c in np.flatnonzero((first == task) & counts.any(axis=1))]
        words = [", ".join(new), f"{len(new)} new", str(len(new))] if new else [""]
        room = 62 * (end - start) / ends[-1]  # letters
        told = next((text for text in words if len(text) <= room), "")
        axes.annotate(told, (start, CLASSES_AT), (3, 0), textcoords="offset points", fontsize=7.5)


def curves(runs: Sequence[Run], metric: str, title: str, *decorations: Decorate, by_task: bool = False) -> Drawn:
    """A metric of the events, at every evaluation or after each task; points without it are left out."""
    scale, top = (1, None) if metric == "memory_diversity" else (100, 101)
    if mark_classes in decorations:
        top = CLASSES_AT + 8
    most = max(len(run.tasks) for run in runs)
    axes = {"xlabel": "task", "xticks": range(1, most + 1, -(-most // 10))} if by_task else STREAM

    def points(run: Run) -> Points:
        events = run.tasks if by_task else run.of_kind("anytime", "task")
        known = [event for event in events if event.get(metric) is not None]
        return [(event["task"] + 1 if by_task else event["seen"], scale * event[metric]) for event in known]

    bands = [] if by_task else [shade_tasks]
    return line_panels(runs, title, points, *bands, *decorations, by_x=by_task, markers=by_task, ylim=(0, top), **axes)


class Tasks(Figure):
    name, title = "tasks", "After each task"
    order, of_several = 10, True

    def draw(self, runs: Sequence[Run]) -> Drawing:
        left, accuracies = curves(runs, "accuracy", "Accuracy, %", by_task=True)
        right, purities = curves(runs, "memory_purity", "Purity of the memory, %", mark_stream, by_task=True)
        panels = [panel for pair in itertools.zip_longest(left, right) for panel in pair if panel is not None]
        caption = "Each line is the mean of a method over its seeds; bars are one standard deviation long each way."
        return Drawing(caption, panels, pd.concat([accuracies, purities]))


class Accuracy(Figure):
    name, title = "accuracy", "Accuracy over the stream"
    order, of_run, of_several = 20, True, True

    def draw(self, runs: Sequence[Run]) -> Drawing:
        right = "correctly" if all(run.knows_all_truth for run in runs) else "as labelled"
        caption = (
            f"The share of images that the learner classifies {right}: while a task streams in, and after the memory "
            f"training at its end. {TASK_BANDS}"
            f"{' On top stand the classes that become frequent with a task.' * of_one_stream(runs)}"
        )
        return Drawing(caption, *curves(runs, "accuracy", "Accuracy, %", mark_classes))


class Memory(Figure):
    name, title, needs = "memory", "The memory over the stream", "data with true labels, to know the memory's purity"
    order, of_run, of_several = 40, True, True

    def draw(self, runs: Sequence[Run]) -> Drawing:
        left, purities = curves(runs, "memory_purity", "Purity of the memory, %", mark_stream)
        right, diversities = curves(runs, "memory_diversity", "Diversity of the memory")
        caption = (
            "Purity is the share of right labels in the memory. Above the dotted line, the memory is cleaner than the "
            f"stream.{' Diversity is the mean distance between images of one class.' * bool(right)} {TASK_BANDS}"
        )
        return Drawing(caption, left + right, pd.concat([purities, diversities]))


class Time(Figure):
    name, title = "time", "Accuracy against training time"
    order, of_several = 30, True

    def draw(self, runs: Sequence[Run]) -> Drawing:
        caption = (
            "Up and left is better. Seconds are of training alone, without evaluation; compare them only between runs "
            "on one device. Bars are one standard deviation long each way."
        )
        axes: dict[str, Any] = {"xlabel": "seconds of training", "xlim": (0, None), "ylim": (0, 101)}

        def point(run: Run) -> Points:
            return [(run.training_seconds, 100 * run.summary["last_accuracy"])]

        return Drawing(caption, *line_panels(runs, "Last accuracy, %", point, markers=True, **axes))


# Alpha -------------------------------------------------------------------------------------------------------------


def over_stream(run: Run) -> Points:
    """Alpha since the last evaluation; of a run without evaluations between tasks, the mean of each task."""
    events = [event for event in run.of_kind("anytime") if event["alpha"] is not None] or run.tasks
    return [(event["seen"], event["alpha"]) for event in events if event["alpha"] is not None]


def by_alpha(runs: Sequence[Run], title: str, metric: str, scale: float = 100) -> Drawn:
    """A metric of each kind of run as a line over its fixed alphas, and a dashed level for its adaptive runs."""

    def point(run: Run) -> Points:
        value = run.summary[metric] if over_stream(run) else None
        return [] if value is None or run.static_alpha is None else [(run.static_alpha, scale * value)]

    def mark_adaptive(axes: Axes, groups: list[Group]) -> None:
        for group in groups:
            level = pd.Series([run.summary[metric] for run in group.runs if run.static_alpha is None], dtype=float)
            axes.axhline(scale * level.mean(), color=colour(group.number), linestyle="--", linewidth=1.5)
        axes.plot([], [], color=INK, linestyle="--", linewidth=1.5, label="with the adaptive alpha")

    return line_panels(runs, title, point, mark_adaptive, by_x=True, markers=True, ignore="alpha", xlabel="alpha")


class Alpha(Figure):
    name, title = "alpha", "Alpha: purity against diversity"
    needs = "a run with an alpha: only PuriDivER's sampler balances purity against diversity"
    order, of_run, of_several, internal = 80, True, True, True

    def draw(self, runs: Sequence[Run]) -> Drawing:
        panels, numbers = line_panels(runs, "Alpha over the stream", over_stream, shade_tasks, ylim=(0, None), **STREAM)
        if len({run.static_alpha for run in runs if over_stream(run)}) > 1:
            first, more = by_alpha(runs, "Last accuracy by alpha, %", "last_accuracy")
            panels, numbers = [*first, *panels], pd.concat([more, numbers])
        caption = (
            "A low alpha keeps samples that look correctly labelled, a high one samples that differ from the rest. "
            f"The adaptive rule raises alpha as the loss on the stream falls. {TASK_BANDS}"
        )
        return Drawing(caption, panels, numbers)


class Diversity(Figure):
    name, title = "diversity", "Diversity and purity against alpha"
    needs = "a run with a fixed alpha (--set alpha=0.3) whose purity or diversity is known"
    order, of_several, internal = 85, True, True

    def draw(self, runs: Sequence[Run]) -> Drawing:
        purities, numbers = by_alpha(runs, "Purity of the final memory, %", "memory_purity")
        diversities, more = by_alpha(runs, "Diversity of the final memory", "memory_diversity", 1)
        caption = "A higher alpha gains variety (diversity) and loses right labels (purity)."
        return Drawing(caption, [*purities, *diversities], pd.concat([numbers, more]))

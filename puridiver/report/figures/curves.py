"""Accuracy, purity and diversity, over the stream and after each task."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pandas as pd

from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.figures.lines import Curve, line_panels
from puridiver.report.reading import Facet, Run
from puridiver.report.style import INK, Axes, Panel

STREAM: dict[str, Any] = {"xlabel": "samples of the stream seen", "xlim": (0, None)}
TASK_BANDS = "Grey bands mark tasks."
PURITY = (
    "Purity is the share of right labels in the memory. Above the dotted line, the memory is cleaner than the stream."
)


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


def _curves(runs: Sequence[Run], figure: str, by_task: bool = False) -> tuple[list[Panel], pd.DataFrame]:
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


def _accuracy_and_purity(runs: Sequence[Run], by_task: bool) -> tuple[list[Panel], pd.DataFrame]:
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

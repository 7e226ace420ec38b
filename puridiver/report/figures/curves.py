"""Accuracy, purity and diversity, over the stream and after each task."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.figures.lines import Curve, line_panels, side_by_side
from puridiver.report.reading import Facet, Run
from puridiver.report.style import INK, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Drawn = tuple[list[Panel], pd.DataFrame]
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


def _curve(run: Run, figure: str, scale: float = 100, at: str = "seen", first: int = 0) -> Curve:
    """A figure at every evaluation, or `at` every task; points without it are left out."""
    events = run.of_kind("anytime", "task") if at == "seen" else run.tasks
    return [(event[at] + first, scale * event[figure]) for event in events if event.get(figure) is not None]


def _accuracies(runs: Sequence[Run]) -> Drawn:
    title = f"{evaluated_on(runs).capitalize()} accuracy, %"
    return line_panels(runs, title, lambda run: _curve(run, "accuracy"), shade_tasks, **STREAM, ylim=(0, 101))


def _purities(runs: Sequence[Run]) -> Drawn:
    return line_panels(
        runs, "Purity of the memory, %", lambda run: _curve(run, "memory_purity"), shade_tasks, _mark_stream, **STREAM,
        ylim=(0, 101),
    )  # fmt: skip


class Accuracy(Figure):
    name, title = "accuracy", "Accuracy over the stream"
    order, of_run, of_several = 20, True, True

    def draw(self, runs: Sequence[Run]) -> Drawing:
        right = "correctly" if all(run.knows_all_truth for run in runs) else "as labelled"
        caption = (
            f"The share of {evaluated_on(runs)} images that the learner classifies {right}: while a task streams in, "
            f"and after the memory training at its end. {TASK_BANDS}"
        )
        return Drawing(self.title, caption, *_accuracies(runs))


class Memory(Figure):
    name, title, needs = "memory", "The memory over the stream", "data with true labels, to know the memory's purity"
    order, of_run, of_several = 50, True, True

    def usable(self, run: Run) -> bool:
        return run.knows_truth

    def draw(self, runs: Sequence[Run]) -> Drawing:
        (left, purities), (right, diversities) = _purities(runs), line_panels(
            runs, "Diversity of the memory", lambda run: _curve(run, "memory_diversity", 1), shade_tasks, **STREAM,
            ylim=(0, None),
        )  # fmt: skip
        diversity = " Diversity is the mean distance between images of one class." * bool(right)
        numbers = pd.concat([purities, diversities])
        return Drawing(self.title, f"{PURITY}{diversity} {TASK_BANDS}", [*left, *right], numbers)


class Stream(Figure):
    name, title = "stream", "Accuracy and purity over the stream"
    order = 25

    def draw(self, runs: Sequence[Run]) -> Drawing:
        (left, accuracies), (right, purities) = _accuracies(runs), _purities(runs)
        numbers = pd.concat([accuracies, purities])
        return Drawing(self.title, f"{PURITY} {TASK_BANDS}", side_by_side(left, right), numbers)


class Tasks(Figure):
    name, title = "tasks", "Accuracy and purity after each task"
    order, of_several = 10, True

    def draw(self, runs: Sequence[Run]) -> Drawing:
        most = max(len(run.tasks) for run in runs)
        axes: dict[str, Any] = {"xlabel": "task", "ylim": (0, 101), "xticks": range(1, most + 1, -(-most // 10))}

        def drawn(title: str, figure: str, *decorations: Any) -> Drawn:
            return line_panels(
                runs, title, lambda r: _curve(r, figure, 100, "task", 1), *decorations, by_x=True, **axes
            )

        left, accuracies = drawn(f"{evaluated_on(runs).capitalize()} accuracy, %", "accuracy")
        right, purities = drawn("Purity of the memory, %", "memory_purity", _mark_stream)
        caption = "Each line is the mean of a method over its seeds; the band is one standard deviation wide each way."
        title = self.title if right else "Accuracy after each task"
        return Drawing(title, caption, side_by_side(left, right), pd.concat([accuracies, purities]))

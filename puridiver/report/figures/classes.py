"""Figures with a row a class: accuracy, balance and confusion of classes; and which labels come when in a stream."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

from puridiver.report.figures import RunFigure
from puridiver.report.figures.lines import evaluated_on
from puridiver.report.reading import Run
from puridiver.report.style import INK, PANEL, Axes, Panel, colour
from puridiver.streams import StreamManifest

NAMED_CLASSES = 20  # axes show numbers for more classes than this
MISTAKES = 20  # in the table of confusions


def shortened(name: str, longest: int = 11) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def height_of(classes: Sequence[str]) -> float:
    """The height of a panel with a row for each class."""
    return max(PANEL[1], 0.9 + 0.2 * min(len(classes), NAMED_CLASSES))


def paint_matrix(shares: np.ndarray, rows: Sequence[str], columns: Sequence[str], axes: Axes) -> None:
    """Percentages as blue cells, with names and numbers where there is room."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    blue = to_rgb(colour(0))
    # From nothing to a blue on which the ink can be read, in light and in dark.
    scale = LinearSegmentedColormap.from_list("share", [(*blue, 0.0), (*blue, 0.6)])
    axes.imshow(shares, cmap=scale, vmin=0, vmax=100, interpolation="nearest", aspect="auto")
    axes.spines[:].set_visible(True)
    for axis, words in ((axes.yaxis, rows), (axes.xaxis, columns)):
        if len(words) <= NAMED_CLASSES:
            axis.set_ticks(range(len(words)), [shortened(word) for word in words])
    if len(columns) <= NAMED_CLASSES and max(map(len, columns)) > 2:
        axes.tick_params("x", rotation=45)
    if max(shares.shape) <= NAMED_CLASSES:
        for (row, column), share in np.ndenumerate(shares):
            if share >= 0.5:
                axes.text(column, row, f"{share:.0f}", ha="center", va="center", fontsize=8 if len(rows) <= 12 else 6)


def by_first_task(manifest: StreamManifest) -> list[int]:
    """Class ids in the order in which they are first major, so that a drifting stream reads as a staircase."""
    return list(dict.fromkeys([*(c for group in manifest.major_classes for c in group), *range(manifest.n_classes)]))


def paint_by_task(manifest: StreamManifest, percents: np.ndarray, axes: Axes) -> None:
    """A matrix of classes and tasks, with a stroke at the major classes of each task."""
    order = by_first_task(manifest)
    names, tasks = [manifest.class_names[c] for c in order], [str(task + 1) for task in range(percents.shape[1])]
    paint_matrix(percents[order], names, tasks, axes)
    for task, group in enumerate(manifest.major_classes):
        places = [order.index(c) for c in group]
        axes.plot([task - 0.42] * len(places), places, color=INK, marker="|", linestyle="", markeredgewidth=2)
    axes.set(xlabel="task", ylabel="" if len(names) <= NAMED_CLASSES else "classes, in order of their tasks")


class Classes(RunFigure):
    name, title, order = "classes", "Accuracy of each class", 30

    def caption(self, runs: Sequence[Run]) -> str:
        return "After each task, in percent of the class. A stroke marks the task whose stream is mainly of this class."

    def panels(self, run: Run) -> list[Panel]:
        paint = partial(paint_by_task, run.manifest, self.table(run).iloc[:, 1:].to_numpy())
        return [Panel(f"{evaluated_on([run]).capitalize()} accuracy, %", paint, height_of(run.class_names))]

    def table(self, run: Run) -> pd.DataFrame:
        """A row a class and a column a task; nan without test images."""
        columns = {f"task {event['task'] + 1}": np.array(event["class_accuracy"], float) * 100 for event in run.tasks}
        return pd.DataFrame({"class": run.class_names, **columns})


class Balance(RunFigure):
    name, title, order = "balance", "Class balance", 50

    def caption(self, runs: Sequence[Run]) -> str:
        marks = " (bars) and by the true ones (marks)" * any(run.knows_all_truth for run in runs)
        return f"Samples of each class by the given labels{marks}. A good memory is balanced, whatever the stream."

    def panels(self, run: Run) -> list[Panel]:
        return [
            Panel(f"Classes of the {words}", partial(_paint_balance, run, where), height_of(run.class_names))
            for where, words in (("stream", "stream"), ("memory", "final memory"))
        ]

    def table(self, run: Run) -> pd.DataFrame:
        names = [f"{where}_per_{true}class" for where in ("stream", "memory") for true in ("", "true_")]
        columns = {name.replace("_", " "): run.tasks[-1][name] for name in names}
        return pd.DataFrame({"class": run.class_names, **columns})


def _paint_balance(run: Run, where: str, axes: Axes) -> None:
    event, at = run.tasks[-1], list(range(len(run.class_names)))
    named = len(at) <= NAMED_CLASSES
    axes.barh(at, event[f"{where}_per_class"], color=colour(0), alpha=0.75, label="by given label")
    if (true := event[f"{where}_per_true_class"]) is not None:
        axes.plot(true, at, color=INK, marker="|", markersize=11 if named else 4, markeredgewidth=2,
                  linestyle="", label="by true label")  # fmt: skip
    axes.set(xlabel="samples", xlim=(0, None), ylabel="" if named else "class number")
    if named:
        axes.set_yticks(at, [shortened(name, 16) for name in run.class_names])
    axes.invert_yaxis()


class Confusion(RunFigure):
    name, title, order = "confusion", "Confusion of classes", 60

    def caption(self, runs: Sequence[Run]) -> str:
        what = f"{_row_kind(runs)} of the {evaluated_on(runs)} images"
        return f"Rows: {what}. Columns: predicted class. In percent of the row."

    def panels(self, run: Run) -> list[Panel]:
        title = f"{evaluated_on([run]).capitalize()} images, % of each {_row_kind([run])}"
        return [Panel(title, partial(_paint_confusion, run), 4.65)]

    def table(self, run: Run) -> pd.DataFrame:
        counts = pd.DataFrame(run.tasks[-1]["confusion"], run.class_names, run.class_names).stack()
        mistakes = counts[[true != predicted for true, predicted in counts.index]].nlargest(MISTAKES)
        return mistakes.rename_axis([_row_kind([run]), "predicted class"]).reset_index(name="images")


def _row_kind(runs: Sequence[Run]) -> str:
    """The kind of class in the rows: labels of data without true labels may be wrong themselves."""
    known = all(run.knows_truth and "verified" not in run.summary for run in runs)
    return "true class" if known else "labelled class"


def _paint_confusion(run: Run, axes: Axes) -> None:
    counts = np.asarray(run.tasks[-1]["confusion"], dtype=float)
    shares = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    paint_matrix(shares, run.class_names, run.class_names, axes)
    axes.set(xlabel="predicted class", ylabel=_row_kind([run]), aspect="equal")


class Mix(RunFigure):
    name, title, order, of_run = "mix", "Which labels come when", 110, False

    def caption(self, runs: Sequence[Run]) -> str:
        return "In percent of the task's given labels. A stroke marks the major classes of a task."

    def panels(self, run: Run) -> list[Panel]:
        counts = run.manifest.counts()  # (classes, tasks)
        paint = partial(paint_by_task, run.manifest, 100 * counts / np.maximum(counts.sum(axis=0), 1))
        return [Panel("% of each task's labels", paint, height_of(run.class_names))]

    def table(self, run: Run) -> pd.DataFrame:
        tasks = [f"task {task + 1}" for task in range(run.manifest.n_tasks)]
        return pd.DataFrame(run.manifest.counts(), columns=tasks).assign(label=run.class_names)

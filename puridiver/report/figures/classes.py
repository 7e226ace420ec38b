"""Figures with a row a class: accuracy and confusion."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

from puridiver.report.figures import Drawing, RunFigure
from puridiver.report.reading import Run
from puridiver.report.style import INK, PANEL, Axes, Panel

NAMED_CLASSES = 20  # axes show numbers for more classes than this
MISTAKES = 20  # in the table of confusions


def paint_matrix(shares: np.ndarray, rows: Sequence[str], columns: Sequence[str], axes: Axes) -> None:
    """Percentages as blue cells, with names and numbers where there is room."""
    # 160: the blue of 100 % is light enough to read the ink on it.
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=160, interpolation="nearest", aspect="auto")
    axes.spines[:].set_visible(True)
    for axis, words in ((axes.yaxis, rows), (axes.xaxis, columns)):
        if len(words) <= NAMED_CLASSES:
            axis.set_ticks(range(len(words)), [word if len(word) < 12 else word[:10] + "…" for word in words])
    if len(columns) <= NAMED_CLASSES and max(map(len, columns)) > 2:
        axes.tick_params("x", rotation=45)
    if max(shares.shape) <= NAMED_CLASSES:
        for (row, column), share in np.ndenumerate(shares):
            if share >= 0.5:
                axes.text(column, row, f"{share:.0f}", ha="center", va="center", fontsize=8 if len(rows) <= 12 else 6)


class Classes(RunFigure):
    name, title, order = "classes", "Accuracy of each class", 30

    def draw_run(self, run: Run) -> Drawing:
        caption = "In percent of the class. A stroke marks the task whose stream is mainly of this class."
        columns = {f"task {event['task'] + 1}": np.array(event["class_accuracy"], float) * 100 for event in run.tasks}
        shares = pd.DataFrame({"class": run.class_names, **columns})  # nan without test images
        height = max(PANEL[1], 0.9 + 0.2 * min(len(shares), NAMED_CLASSES))
        paint = partial(_paint_classes, run, shares[[*columns]].to_numpy())
        return Drawing(caption, [Panel("Accuracy after each task, %", paint, height)], shares)


def _paint_classes(run: Run, shares: np.ndarray, axes: Axes) -> None:
    """Classes in the order in which they are first major, so that a drifting stream reads as a staircase."""
    major = run.manifest.major_classes
    order = list(dict.fromkeys([*(c for group in major for c in group), *range(len(shares))]))
    names, tasks = [run.class_names[c] for c in order], [str(task + 1) for task in range(shares.shape[1])]
    paint_matrix(shares[order], names, tasks, axes)
    for task, group in enumerate(major):
        places = [order.index(c) for c in group]
        axes.plot([task - 0.42] * len(places), places, color=INK, marker="|", linestyle="", markeredgewidth=2)
    axes.set(xlabel="task", ylabel="" if len(names) <= NAMED_CLASSES else "classes, in order of their tasks")


class Confusion(RunFigure):
    name, title, order = "confusion", "Confusion of classes", 60

    def draw_run(self, run: Run) -> Drawing:
        # Labels of data without true labels may be wrong themselves.
        kind = "true class" if run.knows_truth and "verified" not in run.summary else "labelled class"
        counts = np.array(run.tasks[-1]["confusion"], dtype=float)
        shares = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        off_diagonal = pd.DataFrame(counts, run.class_names, run.class_names).mask(np.eye(len(counts), dtype=bool))
        mistakes = off_diagonal.stack().nlargest(MISTAKES).rename_axis([kind, "predicted class"])

        def paint(axes: Axes) -> None:
            paint_matrix(shares, run.class_names, run.class_names, axes)
            axes.set(xlabel="predicted class", ylabel=kind, aspect="equal")

        caption = f"Rows: {kind}. Columns: predicted class. In percent of the row."
        return Drawing(caption, [Panel(f"% of each {kind}", paint, 4.65)], mistakes.reset_index(name="images"))

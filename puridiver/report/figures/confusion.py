"""Which classes the learner takes for which."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
import pandas as pd

from puridiver.report.figures._lines import evaluated_on
from puridiver.report.figures._matrix import paint_matrix
from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.reading import Run, representatives
from puridiver.report.style import Axes, Panel

MISTAKES = 20  # in the table


def _row_kind(runs: Iterable[Run]) -> str:
    """The kind of class in the rows: labels of data without true labels may be wrong themselves."""
    known = all(run.knows_truth and "verified" not in run.summary for run in runs)
    return "true class" if known else "labelled class"


def _paint(run: Run, axes: Axes) -> None:
    counts = np.asarray(run.tasks[-1]["confusion"], dtype=float)
    shares = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    paint_matrix(shares, run.class_names, run.class_names, axes)
    axes.set(xlabel="predicted class", ylabel=_row_kind([run]), aspect="equal")


class Confusion(Figure):
    name, title = "confusion", "Confusion of classes"
    order, of_run, each_run = 60, True, True

    def draw(self, runs: Sequence[Run]) -> Drawing:
        chosen = representatives(runs)
        kind, panels, tables = _row_kind(chosen.values()), [], []
        for label, run in chosen.items():
            title = f"{evaluated_on([run]).capitalize()} images, % of each {_row_kind([run])}"
            panels.append(Panel(title + f", {label}" * (len(chosen) > 1), partial(_paint, run), 4.65))
            counts = pd.DataFrame(run.tasks[-1]["confusion"], run.class_names, run.class_names).stack()
            mistakes = counts[[true != predicted for true, predicted in counts.index]].nlargest(MISTAKES)
            tables.append(mistakes.rename_axis([kind, "predicted class"]).reset_index(name="images").assign(run=label))
        caption = f"Rows: {kind} of the {evaluated_on(runs)} images. Columns: predicted class. In percent of the row."
        return Drawing(caption, panels, pd.concat(tables))

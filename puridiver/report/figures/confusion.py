"""Which classes the learner takes for which."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

from puridiver.report.figures._lines import evaluated_on
from puridiver.report.figures._matrix import paint_matrix
from puridiver.report.figures.base import RunFigure
from puridiver.report.reading import Run
from puridiver.report.style import Axes, Panel

MISTAKES = 20  # in the table


def _row_kind(runs: Sequence[Run]) -> str:
    """The kind of class in the rows: labels of data without true labels may be wrong themselves."""
    known = all(run.knows_truth and "verified" not in run.summary for run in runs)
    return "true class" if known else "labelled class"


class Confusion(RunFigure):
    name, title, order = "confusion", "Confusion of classes", 60

    def caption(self, runs: Sequence[Run]) -> str:
        what = f"{_row_kind(runs)} of the {evaluated_on(runs)} images"
        return f"Rows: {what}. Columns: predicted class. In percent of the row."

    def panels(self, run: Run) -> list[Panel]:
        title = f"{evaluated_on([run]).capitalize()} images, % of each {_row_kind([run])}"
        return [Panel(title, partial(_paint, run), 4.65)]

    def table(self, run: Run) -> pd.DataFrame:
        counts = pd.DataFrame(run.tasks[-1]["confusion"], run.class_names, run.class_names).stack()
        mistakes = counts[[true != predicted for true, predicted in counts.index]].nlargest(MISTAKES)
        return mistakes.rename_axis([_row_kind([run]), "predicted class"]).reset_index(name="images")


def _paint(run: Run, axes: Axes) -> None:
    counts = np.asarray(run.tasks[-1]["confusion"], dtype=float)
    shares = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    paint_matrix(shares, run.class_names, run.class_names, axes)
    axes.set(xlabel="predicted class", ylabel=_row_kind([run]), aspect="equal")

"""How many samples of each class the stream and the final memory have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pandas as pd

from puridiver.report.figures._matrix import NAMED_CLASSES, height_of, shortened
from puridiver.report.figures.base import RunFigure
from puridiver.report.reading import Run
from puridiver.report.style import INK, Axes, Panel, colour


class Balance(RunFigure):
    name, title, order = "balance", "Class balance", 50

    def caption(self, runs: Sequence[Run]) -> str:
        marks = " (bars) and by the true ones (marks)" * any(run.knows_all_truth for run in runs)
        return f"Samples of each class by the given labels{marks}. A good memory is balanced, whatever the stream."

    def panels(self, run: Run) -> list[Panel]:
        return [
            Panel(f"Classes of the {words}", partial(_paint, run, where), height_of(run))
            for where, words in (("stream", "stream"), ("memory", "final memory"))
        ]

    def table(self, run: Run) -> pd.DataFrame:
        names = [f"{where}_per_{true}class" for where in ("stream", "memory") for true in ("", "true_")]
        columns = {name.replace("_", " "): run.tasks[-1][name] for name in names}
        return pd.DataFrame({"class": run.class_names, **columns})


def _paint(run: Run, where: str, axes: Axes) -> None:
    event, at = run.tasks[-1], list(range(len(run.class_names)))
    given, true = event[f"{where}_per_class"], event[f"{where}_per_true_class"]
    axes.barh(at, given, color=colour(0), alpha=0.75, label="by given label")
    if true is not None:
        axes.plot(true, at, color=INK, marker="|", markersize=11 if len(at) <= NAMED_CLASSES else 4, markeredgewidth=2,
                  linestyle="", label="by true label")  # fmt: skip
    axes.set(xlabel="samples", xlim=(0, None), ylabel="" if len(at) <= NAMED_CLASSES else "class number")
    if len(at) <= NAMED_CLASSES:
        axes.set_yticks(at, [shortened(name) for name in run.class_names])
    axes.invert_yaxis()

"""How many samples of each class the stream and the final memory have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pandas as pd

from puridiver.report.figures._matrix import NAMED_CLASSES, shortened
from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.reading import Run, representatives
from puridiver.report.style import INK, PANEL, Axes, Panel, colour


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


class Balance(Figure):
    name, title = "balance", "Class balance"
    order, of_run, each_run = 50, True, True

    def draw(self, runs: Sequence[Run]) -> Drawing:
        chosen = representatives(runs)
        panels, tables = [], []
        for label, run in chosen.items():
            height = max(PANEL[1], 0.9 + 0.2 * min(len(run.class_names), NAMED_CLASSES))
            for where, words in (("stream", "stream"), ("memory", "final memory")):
                title = f"Classes of the {words}" + f", {label}" * (len(chosen) > 1)
                panels.append(Panel(title, partial(_paint, run, where), height))
            names = [f"{where}_per_{true}class" for where in ("stream", "memory") for true in ("", "true_")]
            columns = {name.replace("_", " "): run.tasks[-1][name] for name in names}
            tables.append(pd.DataFrame({"run": label, "class": run.class_names, **columns}))
        marks = " (bars) and by the true ones (marks)" * any(run.knows_all_truth for run in chosen.values())
        caption = f"Samples of each class by the given labels{marks}. A good memory is balanced, whatever the stream."
        return Drawing(caption, panels, pd.concat(tables))

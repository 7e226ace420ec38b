"""The classes of the stream and of the final memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.reading import Run, representatives
from puridiver.report.style import INK, PANEL, Panel, colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMED_CLASSES = 20  # axes show numbers for more classes than this


def shortened(name: str, longest: int = 16) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def _paint(run: Run, where: str, axes: Axes) -> None:
    event, at = run.tasks[-1], list(range(len(run.class_names)))
    given, true = event[f"{where}_per_class"], event[f"{where}_per_true_class"]
    if len(at) > NAMED_CLASSES:
        axes.bar(at, given, color=colour(0), alpha=0.75, label="by given label")
        if true is not None:
            axes.plot(at, true, color=INK, marker=".", markersize=3, linestyle="", label="by true label")
        axes.set(xlabel="class number", ylabel="samples")
        return
    axes.barh(at, given, color=colour(0), alpha=0.75, label="by given label")
    if true is not None:
        axes.plot(
            true, at, color=INK, marker="|", markersize=11, markeredgewidth=2, linestyle="", label="by true label"
        )
    axes.set_yticks(at, [shortened(name) for name in run.class_names])
    axes.set(xlabel="samples", xlim=(0, None))
    axes.invert_yaxis()


class Balance(Figure):
    name, title = "balance", "Class balance"
    order, of_run, each_run = 90, True, True

    def draw(self, runs: Sequence[Run]) -> Drawing:
        chosen = representatives(runs)
        panels, tables = [], []
        for label, run in chosen.items():
            n, whose = len(run.class_names), f", {label}" * (len(chosen) > 1)
            height = max(PANEL[1], 0.9 + 0.2 * n) if n <= NAMED_CLASSES else PANEL[1]
            panels += [
                Panel(f"Classes of the {words}{whose}", partial(_paint, run, where), height)
                for where, words in (("stream", "stream"), ("memory", "final memory"))
            ]
            tables.append(pd.DataFrame({
                "run": label, "class": run.class_names,
                **{f"{where}, {which}": run.tasks[-1][f"{where}_per_{'true_' * (which == 'true')}class"]
                   for where in ("stream", "memory") for which in ("given", "true")},
            }))  # fmt: skip
        marks = " (bars) and by the true ones (marks)" if any(run.knows_all_truth for run in chosen.values()) else ""
        caption = (
            f"Samples of each class by the given labels{marks}. A good memory is balanced, even if the stream is not."
        )
        return Drawing(self.title, caption, panels, pd.concat(tables))

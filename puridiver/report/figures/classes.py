"""The classes of stream and memory, and their confusion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.figures.curves import evaluated_on
from puridiver.report.reading import Run, representatives
from puridiver.report.style import INK, PANEL, Axes, Panel, colour

NAMED_CLASSES = 20  # axes show numbers for more classes than this
MISTAKES = 20  # in the table of the confusion


def shortened(name: str, longest: int = 16) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def _paint_balance(run: Run, where: str, axes: Axes) -> None:
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
    order, of_run, each_run = 90, True, True

    def draw(self, runs: Sequence[Run]) -> Drawing:
        chosen = representatives(runs)
        panels, tables = [], []
        for label, run in chosen.items():
            height = max(PANEL[1], 0.9 + 0.2 * min(len(run.class_names), NAMED_CLASSES))
            for where, words in (("stream", "stream"), ("memory", "final memory")):
                title = f"Classes of the {words}" + f", {label}" * (len(chosen) > 1)
                panels.append(Panel(title, partial(_paint_balance, run, where), height))
            names = [f"{where}_per_{true}class" for where in ("stream", "memory") for true in ("", "true_")]
            columns = {name.replace("_", " "): run.tasks[-1][name] for name in names}
            tables.append(pd.DataFrame({"run": label, "class": run.class_names, **columns}))
        marks = " (bars) and by the true ones (marks)" * any(run.knows_all_truth for run in chosen.values())
        caption = f"Samples of each class by the given labels{marks}. A good memory is balanced, whatever the stream."
        return Drawing(self.title, caption, panels, pd.concat(tables))


def _row_kind(runs: Iterable[Run]) -> str:
    """The kind of class in the rows: labels of data without true labels may be wrong themselves."""
    known = all(run.knows_truth and "verified" not in run.summary for run in runs)
    return "true class" if known else "labelled class"


def _paint_confusion(run: Run, axes: Axes) -> None:
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    counts = np.asarray(run.tasks[-1]["confusion"], dtype=float)
    shares = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    blue, n = to_rgb(colour(0)), len(run.class_names)
    # From nothing to a blue on which the ink can be read, in light and in dark.
    scale = LinearSegmentedColormap.from_list("share", [(*blue, 0.0), (*blue, 0.6)])
    axes.imshow(shares, cmap=scale, vmin=0, vmax=100, interpolation="nearest")
    axes.set(xlabel="predicted class", ylabel=_row_kind([run]))
    axes.spines[:].set_visible(True)
    if n > NAMED_CLASSES:
        return
    names = [shortened(name, 11) for name in run.class_names]
    turned: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    axes.set_yticks(range(n), names)
    axes.set_xticks(range(n), names, **(turned if max(map(len, names)) > 2 else {}))
    for (row, column), share in np.ndenumerate(shares):
        if share >= 0.5:
            axes.text(column, row, f"{share:.0f}", ha="center", va="center", fontsize=8 if n <= 12 else 6)


class Confusion(Figure):
    name, title = "confusion", "Confusion of classes"
    order, of_run, each_run = 100, True, True

    def draw(self, runs: Sequence[Run]) -> Drawing:
        chosen = representatives(runs)
        kind, panels, tables = _row_kind(chosen.values()), [], []
        for label, run in chosen.items():
            title = f"{evaluated_on([run]).capitalize()} images, % of each {_row_kind([run])}"
            panels.append(Panel(title + f", {label}" * (len(chosen) > 1), partial(_paint_confusion, run), 4.65))
            counts = pd.DataFrame(run.tasks[-1]["confusion"], run.class_names, run.class_names).stack()
            mistakes = counts[[true != predicted for true, predicted in counts.index]].nlargest(MISTAKES)
            tables.append(mistakes.rename_axis([kind, "predicted class"]).reset_index(name="images").assign(run=label))
        caption = f"Rows: {kind} of the {evaluated_on(runs)} images. Columns: predicted class. In percent of the row."
        return Drawing(self.title, caption, panels, pd.concat(tables))

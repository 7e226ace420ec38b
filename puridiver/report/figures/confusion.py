"""The confusion matrix on the evaluation images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from puridiver.report.figures.balance import NAMED_CLASSES, shortened
from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.figures.lines import evaluated_on
from puridiver.report.reading import Run, representatives
from puridiver.report.style import PANEL, Panel, colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MISTAKES = 20  # in the table


def _row_kind(runs: Iterable[Run]) -> str:
    """The kind of class in the rows: labels of data without true labels may be wrong themselves."""
    known = all(run.knows_truth and "verified" not in run.summary for run in runs)
    return "true class" if known else "labelled class"


def _paint(run: Run, axes: Axes) -> None:
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    counts = np.asarray(run.tasks[-1]["confusion"], dtype=float)
    shares = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    blue, n = to_rgb(colour(0)), len(run.class_names)
    # From nothing to a blue on which the ink can be read, in light and in dark.
    scale = LinearSegmentedColormap.from_list("share", [(*blue, 0.0), (*blue, 0.6)])
    axes.imshow(shares, cmap=scale, vmin=0, vmax=100, interpolation="nearest")
    axes.set(xlabel="predicted class", ylabel=_row_kind([run]))
    for spine in axes.spines.values():
        spine.set_visible(True)
    if n > NAMED_CLASSES:
        return
    names = [shortened(name, 11) for name in run.class_names]
    turned: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    axes.set_yticks(range(n), names)
    axes.set_xticks(range(n), names, **(turned if max(map(len, names)) > 2 else {}))
    for (row, column), share in np.ndenumerate(shares):
        if share >= 0.5:
            axes.text(column, row, f"{share:.0f}", ha="center", va="center", fontsize=8 if n <= 12 else 6)


def _mistakes(label: str, run: Run, kind: str) -> pd.DataFrame:
    counts = np.asarray(run.tasks[-1]["confusion"])
    rows = [
        {"run": label, kind: run.class_names[t], "predicted class": run.class_names[p], "images": int(k),
         "% of the class": 100 * k / counts[t].sum()}
        for (t, p), k in np.ndenumerate(counts) if t != p and k
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["run", kind, "predicted class", "images", "% of the class"])
    return frame.sort_values("images", ascending=False, kind="stable").head(MISTAKES)


class Confusion(Figure):
    name, title = "confusion", "Confusion of classes"
    order, of_run, each_run = 100, True, True

    def draw(self, runs: Sequence[Run]) -> Drawing:
        chosen = representatives(runs)
        kind, on = _row_kind(chosen.values()), evaluated_on(runs)
        panels = [
            Panel(f"{evaluated_on([run]).capitalize()} images, % of each {_row_kind([run])}"
                  + f", {label}" * (len(chosen) > 1), partial(_paint, run), PANEL[0] * 0.95)
            for label, run in chosen.items()
        ]  # fmt: skip
        caption = (
            f"Each row is a {kind} of the {on} images, each column what the learner predicts, in percent of the row."
        )
        return Drawing(
            self.title, caption, panels, pd.concat(_mistakes(label, run, kind) for label, run in chosen.items())
        )

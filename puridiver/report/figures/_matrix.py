"""Shares of classes as a matrix of cells, which several figures draw."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from puridiver.report.reading import Run
from puridiver.report.style import PANEL, Axes, colour

NAMED_CLASSES = 20  # axes show numbers for more classes than this


def shortened(name: str, longest: int = 16) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def height_of(run: Run) -> float:
    """The height of a panel with a row for each class."""
    return max(PANEL[1], 0.9 + 0.2 * min(len(run.class_names), NAMED_CLASSES))


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
            axis.set_ticks(range(len(words)), [shortened(word, 11) for word in words])
    if len(columns) <= NAMED_CLASSES and max(map(len, columns)) > 2:
        axes.tick_params("x", rotation=45)
    if max(shares.shape) <= NAMED_CLASSES:
        for (row, column), share in np.ndenumerate(shares):
            if share >= 0.5:
                axes.text(column, row, f"{share:.0f}", ha="center", va="center", fontsize=8 if len(rows) <= 12 else 6)

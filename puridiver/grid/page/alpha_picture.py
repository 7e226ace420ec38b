"""Table 4 as a picture: accuracy and purity of the memory by static alpha, beside the paper's figures."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from puridiver.errors import DataError
from puridiver.grid.page.paired import WHOLE
from puridiver.grid.page.sections import entry_of
from puridiver.grid.page.tables import CellRuns, Line, Table
from puridiver.grid.page.verdicts import UNKNOWN, value_of
from puridiver.report.style import INK, Panel, Picture, line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PRESET = "table4"
HEIGHT = 2.9  # inches: six panels should fit on a page
TITLE = "CIFAR-10, Table 4: a static alpha, and the adaptive one"
MEANING = (
    "Last accuracy by static alpha under each noise: small dots are runs, the coloured line joins their means, the "
    "black one the paper's figures. Level lines: the adaptive alpha, ours on the seeds of the dots (coloured) and the "
    "paper's (black). Last panel: right labels in the final memory by alpha."
)


@dataclass(frozen=True)
class Curve:
    """What one noise shows: of each alpha the runs' accuracies and purities in percent, and the paper's figure."""

    noise: str
    alphas: list[float]
    accuracy: list[list[float]]
    purity: list[list[float]]
    paper: list[float | None]
    adaptive: list[float]
    paper_adaptive: float | None


def alpha_picture(table: Table) -> Picture:
    """A panel for each noise, and one of purity; of the recipe `official` alone."""
    curves = [_curve(table, c) for c in range(len(table.noises))]
    if not any(found for curve in curves for found in curve.accuracy):
        raise DataError(
            "the ledger has no runs of Table 4 on CIFAR-10's published streams to draw: leave --alpha-picture out"
        )
    panels = [Panel(f"{curve.noise}: last accuracy, %", partial(_paint_accuracy, curve), HEIGHT) for curve in curves]
    panels.append(Panel("Right labels in the final memory, %", partial(_paint_purity, curves), HEIGHT))
    alphas = [f"{alpha:g}" for alpha in curves[0].alphas]
    rows = [line for curve in curves for line in _numbers(curve)]
    return Picture("alpha", TITLE, MEANING, panels, ("noise", "figure", *alphas, "adaptive"), rows, columns=3)


def _curve(table: Table, c: int) -> Curve:
    whole = table.line(WHOLE[PRESET])
    static = [line for line in table.lines if line.title == line.method.title and line is not whole]
    seeds = {row["seed"] for line in static for row in line.cells[c].rows}
    return Curve(
        table.noises[c],
        [float(line.method.options["alpha"]) for line in static],
        [_percent(line.cells[c], "last_accuracy") for line in static],
        [_percent(line.cells[c], "memory_purity") for line in static],
        [_published(table, line, c) for line in static],
        [100 * row["last_accuracy"] for row in whole.cells[c].rows if row["seed"] in seeds],
        _published(table, whole, c),
    )


def _percent(cell: CellRuns, figure: str) -> list[float]:
    rows = sorted(cell.rows, key=lambda row: row["seed"])
    return [100 * row[figure] for row in rows if row[figure] is not None]


def _published(table: Table, line: Line, c: int) -> float | None:
    return value_of(entry_of(table, line, line.cells[c]).paper)


def _numbers(curve: Curve) -> list[tuple[str, ...]]:
    """What the panels of one noise show, as text."""

    def runs(found: Sequence[float]) -> str:
        return " ".join(f"{value:.2f}" for value in found) or UNKNOWN

    def one(value: float | None) -> str:
        return UNKNOWN if value is None else f"{value:.1f}"

    return [
        (curve.noise, "last accuracy %", *map(runs, curve.accuracy), runs(curve.adaptive)),
        (curve.noise, "memory purity %", *map(runs, curve.purity), UNKNOWN),
        (curve.noise, "the paper's accuracy %", *map(one, curve.paper), one(curve.paper_adaptive)),
    ]


# Painting ----------------------------------------------------------------------------------------------------------


def _paint_accuracy(curve: Curve, axes: Axes) -> None:
    look = line_style(0)
    _paint_runs(axes, curve.alphas, curve.accuracy, 0, "ours")
    if curve.adaptive:
        level = statistics.mean(curve.adaptive)
        axes.axhline(level, color=look["color"], linewidth=1, linestyle=(0, (4, 2)), label="ours, adaptive")
    known = [(alpha, value) for alpha, value in zip(curve.alphas, curve.paper, strict=True) if value is not None]
    if known:
        axes.plot(*zip(*known, strict=True), color=INK, linewidth=1, marker="x", label="the paper's")
    if curve.paper_adaptive is not None:
        axes.axhline(curve.paper_adaptive, color=INK, linewidth=1, linestyle=(0, (1, 2)), label="the paper's, adaptive")
    _finish(axes, curve.alphas)
    axes.set_ylim(bottom=0)


def _paint_purity(curves: Sequence[Curve], axes: Axes) -> None:
    for number, curve in enumerate(curves):
        _paint_runs(axes, curve.alphas, curve.purity, number, curve.noise)
    _finish(axes, curves[0].alphas)


def _paint_runs(axes: Axes, alphas: Sequence[float], values: Sequence[list[float]], number: int, title: str) -> None:
    """A line through the means, and a dot for each run where an alpha has several."""
    look = line_style(number)
    means = [(alpha, statistics.mean(found)) for alpha, found in zip(alphas, values, strict=True) if found]
    dots = [(alpha, value) for alpha, found in zip(alphas, values, strict=True) for value in found if len(found) > 1]
    if means:
        axes.plot(*zip(*means, strict=True), **look, label=title)
    if dots:
        axes.plot(*zip(*dots, strict=True), **{**look, "linestyle": "none"}, markersize=2.6, alpha=0.55)


def _finish(axes: Axes, alphas: Sequence[float]) -> None:
    axes.set_xticks(list(alphas), [f"{alpha:g}" for alpha in alphas])
    axes.set_xlabel("static alpha")
    axes.grid(axis="y", alpha=0.25, linewidth=0.5)

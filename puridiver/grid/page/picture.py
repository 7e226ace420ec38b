"""The headline figures as a picture: every run a dot, beside what is published."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from puridiver.errors import DataError
from puridiver.grid.page.summary import headline_lines, in_order, published
from puridiver.grid.page.tables import Line, Table
from puridiver.grid.page.verdicts import UNKNOWN, deviation_of, value_of
from puridiver.report.style import INK, Panel, Picture, line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEIGHT = 3.9  # inches: a bit more than other panels, for figures that lie close together
WIDTH = 0.76  # of the way from one noise to the next, shared by the methods
TITLE = "CIFAR-10, the paper's own streams"
MEANING = (
    "Small signs are single runs, large ones their mean, hollow where there is one run alone. Recipe `official` is to "
    "lie on the published figures, `puridiver` is the default. Where a method was run more often on streams in the "
    "order of their files (row 23 of FIDELITY.md), those runs are shown and named so."
)


@dataclass(frozen=True)
class Series:
    """A method's values in percent: of each noise one a run, in the order of their seeds."""

    title: str
    accuracy: list[list[float]]
    purity: list[list[float]]


def headline_picture(tables: Sequence[Table]) -> Picture:
    """Last accuracy and purity of the final memory under each noise, beside the paper's and the rerun's."""
    noises = tables[0].noises
    shown = [_series(table, line) for table, line in _each_method_once(tables)]
    if not shown:
        raise DataError(
            "the ledger has no whole runs on CIFAR-10's published streams to draw: leave --picture out "
            "(`puridiver plot` draws runs of your own)"
        )
    paper, rerun = published(tables[0])
    return Picture(
        "headline",
        TITLE,
        MEANING,
        [
            Panel("Last test accuracy, %", partial(_paint_accuracy, noises, shown, paper, rerun), HEIGHT),
            Panel("Right labels in the final memory, %", partial(_paint_purity, noises, shown), HEIGHT),
        ],
        ("method", "figure", *noises),
        [
            *(_numbers(series.title, "last accuracy %", series.accuracy) for series in shown),
            *(_numbers(series.title, "memory purity %", series.purity) for series in shown),
            ("PuriDivER, the paper", "last accuracy %", *paper),
            ("PuriDivER, rerun", "last accuracy %", *rerun),
        ],
    )


def _each_method_once(tables: Sequence[Table]) -> list[tuple[Table, Line]]:
    """In the order of the streams that it was run in more often, of equals the first; what was not run is left out."""
    best: dict[str, tuple[Table, Line]] = {}
    for table, line in headline_lines(tables):
        if line.title not in best or line.n_runs > best[line.title][1].n_runs:
            best[line.title] = (table, line)
    return [(table, line) for table, line in best.values() if line.was_run]


def _series(table: Table, line: Line) -> Series:
    rows = [sorted(cell.rows, key=lambda row: row["seed"]) for cell in line.cells]
    return Series(
        line.title + in_order(table),
        [[100 * row["last_accuracy"] for row in found] for found in rows],
        [[100 * row["memory_purity"] for row in found if row["memory_purity"] is not None] for found in rows],
    )


def _numbers(title: str, figure: str, values: Sequence[Sequence[float]]) -> tuple[str, ...]:
    return title, figure, *(" ".join(f"{value:.2f}" for value in found) or UNKNOWN for found in values)


# Painting ----------------------------------------------------------------------------------------------------------


def _paint_accuracy(
    noises: Sequence[str], shown: Sequence[Series], paper: Sequence[str], rerun: Sequence[str], axes: Axes
) -> None:
    places = _paint(axes, noises, [series.accuracy for series in shown], [series.title for series in shown], spare=2)
    for title, figures, marker, place in zip(
        ("PuriDivER, the paper (± sd)", "PuriDivER, a rerun, last epoch (± sd)"),
        (paper, rerun),
        ("_", "x"),
        places,
        strict=True,
    ):
        _paint_published(axes, title, figures, marker, place)


def _paint_purity(noises: Sequence[str], shown: Sequence[Series], axes: Axes) -> None:
    """By the same signs: the panel beside it says whose they are."""
    _paint(axes, noises, [series.purity for series in shown], [None] * len(shown))


def _paint(
    axes: Axes, noises: Sequence[str], values: Sequence[list[list[float]]], titles: Sequence[str | None], spare: int = 0
) -> list[float]:
    """Methods side by side at each noise; returns places for some more on the left, as shifts from the noise's own."""
    count = len(values) + spare
    shifts = [WIDTH * ((number + 0.5) / count - 0.5) for number in range(count)]
    for number, (by_noise, title) in enumerate(zip(values, titles, strict=True)):
        look: dict[str, Any] = {**line_style(number), "linestyle": "none"}
        shift = shifts[spare + number]
        dots = [(x + shift, value) for x, found in enumerate(by_noise) for value in found]
        means = [(x + shift, statistics.mean(found)) for x, found in enumerate(by_noise) if len(found) > 1]
        alone = [(x + shift, found[0]) for x, found in enumerate(by_noise) if len(found) == 1]
        axes.plot(*_columns(dots), **look, markersize=2.6, alpha=0.55, markeredgewidth=0)
        axes.plot(*_columns(alone), **look, markersize=6, markerfacecolor="white")
        axes.plot(*_columns(means), **look, markersize=6, label=title)
    for border in range(1, len(noises)):
        axes.axvline(border - 0.5, color=INK, linewidth=0.5, alpha=0.25)
    axes.set_xticks(range(len(noises)), list(noises))
    axes.set_xlim(-0.5, len(noises) - 0.5)
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="y", alpha=0.25, linewidth=0.5)
    return shifts[:spare]


def _paint_published(axes: Axes, title: str, figures: Sequence[str], marker: str, shift: float) -> None:
    known = [(x, figure) for x, figure in enumerate(figures) if value_of(figure) is not None]
    deviations = [deviation_of(figure) or 0 for _, figure in known]
    axes.errorbar(
        [x + shift for x, _ in known],
        [float(value_of(figure) or 0) for _, figure in known],
        deviations if any(deviations) else None,
        color=INK, marker=marker, linestyle="none", markersize=6, elinewidth=1, label=title,
    )  # fmt: skip


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]

"""What each row of docs/FIDELITY.md is worth, as a picture: every pair of runs a dot, their mean with its error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from puridiver.errors import DataError
from puridiver.grid.page.fidelity import comparisons, most_telling, with_p
from puridiver.grid.page.sections import pairs_by_seed
from puridiver.grid.page.tables import START, Table
from puridiver.grid.page.verdicts import Comparison
from puridiver.report.style import INK, LEGEND_SIZE, Panel, Picture, colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW_HEIGHT, FRAME_HEIGHT = 0.29, 0.85  # inches: a row with its name; what is above and below all rows
LINEAR = 5.0  # points to each side of nothing; beyond them by tenfolds, so that a collapse leaves room for the rest
TICKS = (-50, -20, -5, -2, 0, 2, 5, 20, 50)
SHUFFLED, LISTED, SINGLE = "o", "s", "D"
READ = {"official": "as released", "paper": "as printed"}
GREY = "#c8c8c8"
VERDICTS = (("sure", 2, INK), ("perhaps", 1, GREY), ("not told apart", 0, "white"))  # strength and inside of a sign
TITLE = "CIFAR-10: what each row is worth"
MEANING = (
    "Points of last accuracy that the other reading of one row alone gains or loses: dots are pairs of runs on the "
    "same stream, signs their mean and its standard error, and diamonds a single pair, of which there is no verdict. "
    "Beyond 5 points the scale is logarithmic."
)


@dataclass(frozen=True)
class Row:
    """One row of FIDELITY.md under one noise: its differences by seed, and what they come to."""

    title: str
    differences: list[float]
    found: Comparison
    listed: bool


@dataclass(frozen=True)
class Column:
    """The rows that were compared under one noise, from one recipe."""

    title: str
    left: str  # the reading that is better where points are lost
    right: str
    rows: list[Row]


def fidelity_picture(tables: Sequence[Sequence[Table]]) -> Picture:
    """A panel for each recipe to start from and each noise that has comparisons."""
    columns = [column for orders in tables for column in _columns(orders) if column.rows]
    if not columns:
        raise DataError("the ledger has no runs of the fidelity ablation to draw")
    return Picture(
        "fidelity",
        TITLE,
        MEANING,
        [Panel(column.title, partial(_paint, column), _height(column)) for column in columns],
        ("from", "row", "differences", "mean ± standard error", "order"),
        [_numbers(column, row) for column in columns for row in column.rows],
    )


def _height(column: Column) -> float:
    return FRAME_HEIGHT + ROW_HEIGHT * len(column.rows)


def _numbers(column: Column, row: Row) -> tuple[str, ...]:
    differences = " ".join(f"{difference:+.2f}" for difference in row.differences)
    order = "files' order" if row.listed else "shuffled"
    return column.title, row.title, differences, with_p(row.found), order


def _columns(orders: Sequence[Table]) -> list[Column]:
    """Of one recipe, noise by noise; of the orders of the streams the one that tells most, row by row."""
    start, compared = START[orders[0].preset], [(table, comparisons(table)) for table in orders]
    (other,) = READ.keys() - {start}
    return [
        Column(
            f"From {start}, {noise}",
            READ[start],
            READ[other],
            [row for number in range(1, len(orders[0].lines)) if (row := _row(compared, number, c)) is not None],
        )
        for c, noise in enumerate(orders[0].noises)
    ]


def _row(compared: Sequence[tuple[Table, dict[str, list[Comparison]]]], number: int, c: int) -> Row | None:
    """None where nothing was compared."""
    table, found = most_telling([(table, of_line[table.lines[number].title][c]) for table, of_line in compared])
    if found.difference is None:
        return None
    line = table.lines[number]
    pairs = pairs_by_seed(line.cells[c], table.lines[0].cells[c])
    return Row(line.title, [ours - theirs for ours, theirs in pairs], found, table.listed)


# Painting ----------------------------------------------------------------------------------------------------------


def _paint(column: Column, axes: Axes) -> None:
    for place, row in enumerate(column.rows):
        _paint_row(axes, place, row)
    axes.axvline(0, color=INK, linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(column.rows)), [row.title for row in column.rows])
    axes.set_ylim(len(column.rows) + 0.3, -0.6)  # the first row on top, below the last some words
    axes.text(0, len(column.rows), f"← better {column.left} ", ha="right", va="center", fontsize=LEGEND_SIZE)
    axes.text(0, len(column.rows), f" {column.right} →", ha="left", va="center", fontsize=LEGEND_SIZE)
    axes.tick_params(axis="y", length=0)
    _set_scale(axes, column)
    single = all(_is_single(row) for row in column.rows)
    axes.set_xlabel("points of last accuracy" + ",\nof one pair of runs each" * single)
    axes.grid(axis="x", alpha=0.25, linewidth=0.5)
    _explain(axes, column.rows)


def _paint_row(axes: Axes, place: int, row: Row) -> None:
    """Pairs a little below their mean, which would hide them; a single one stands for itself, without a verdict."""
    difference = row.found.difference or 0.0
    ink = INK if difference == 0 else colour(0) if difference > 0 else colour(1)
    marker = LISTED if row.listed else SHUFFLED
    dots = partial(axes.plot, color=ink, linestyle="none", markeredgewidth=0)
    if row.found.direction is None:
        dots(row.differences, [place] * len(row.differences), marker=SINGLE if _is_single(row) else marker)
        return
    dots(row.differences, [place + 0.28] * len(row.differences), marker=marker, markersize=2.8)
    inside = ("white", GREY, ink)[abs(row.found.direction)]
    axes.errorbar(
        [difference], [place], xerr=row.found.error, linestyle="none", color=ink, marker=marker,
        markersize=6, markerfacecolor=inside, elinewidth=1.2,
    )  # fmt: skip


def _is_single(row: Row) -> bool:
    return row.found.direction is None and len(row.differences) == 1


def _explain(axes: Axes, rows: Sequence[Row]) -> None:
    """What the signs of these rows mean, for the legend."""
    verdicts = {abs(row.found.direction) for row in rows if row.found.direction is not None}
    signs = [(label, SHUFFLED, inside) for label, strength, inside in VERDICTS if strength in verdicts]
    if any(row.listed for row in rows):
        signs.append(("files' order", LISTED, "white"))
    if any(map(_is_single, rows)):
        signs.append(("one pair", SINGLE, INK))
    for label, marker, inside in signs:
        axes.plot([], [], linestyle="none", color=INK, marker=marker, markerfacecolor=inside, markersize=6, label=label)


def _set_scale(axes: Axes, column: Column) -> None:
    values = [value for row in column.rows for value in (*row.differences, row.found.difference or 0.0)]
    least, most = min(values), max(values)
    axes.set_xscale("symlog", linthresh=LINEAR, linscale=0.75)
    # Either side has room for its words, however far the other goes.
    low, high = min(-LINEAR * 1.3, least * 1.25, -1.5 * most), max(LINEAR * 1.3, most * 1.25, -least / 4)
    shown = [tick for tick in TICKS if low <= tick <= high]
    axes.set_xticks(shown, [f"{tick:+d}" if tick else "0" for tick in shown])
    axes.set_xticks([], minor=True)
    axes.set_xlim(low, high)

"""Which rows of a ledger a figure of the results page is made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from puridiver.grid.page.summary import PURITY, in_order
from puridiver.grid.page.tables import CellRuns, Contents, Line, Table, sort_rows
from puridiver.grid.table import NAMES
from puridiver.grid.variants import Row

NUMBER = "line_of_ledger"  # no key of a ledger's own


class Figure(NamedTuple):
    """A figure that was run: where it stands, the rows it is the mean of, and older ones of the same settings."""

    heading: str
    rows: Sequence[Row]
    older: Sequence[Row]


def line_number(row: Row) -> int:
    """Where a row of a `Figure` stands in the ledgers, counted from 1."""
    return int(row[NUMBER])


def figures_of(rows: Sequence[Row], title: str, noise: str | None = None) -> list[Figure]:
    """The figures of every table's line of this title, under one noise or all.

    A title may be one of the headline's, with what is shown before it or the order of the streams behind it. Without
    an order it means shuffled streams, and those in the order of the files only where a table has no others.
    """
    contents = sort_rows([{**row, NUMBER: number} for number, row in enumerate(rows, start=1)])
    lines, name = list(_lines(contents)), title.removeprefix(PURITY)
    named = [line for line in lines if name in (line.title, line.title + in_order(line.table))]
    if not named:
        titles = sorted({found.title + in_order(found.table) for found in lines if found.line.was_run})
        raise ValueError(f"no table has a line {title!r}; lines with runs are: {'; '.join(titles) or 'none'}")
    noises = sorted({cell.column.noise for found in named for cell in found.line.cells})
    if noise is not None and noise not in noises:
        raise ValueError(f"the line {title!r} has no noise {noise!r}, but {', '.join(noises)}")
    by_table: dict[tuple[str, str], list[Figure]] = {}
    for found in named:
        cells = [cell for cell in found.line.cells if cell.rows and noise in (None, cell.column.noise)]
        if cells:  # those on shuffled streams come first, and stay
            heading = f"{found.where}: {found.title}"
            by_table.setdefault(found.key, [_figure(heading, cell, title.startswith(PURITY)) for cell in cells])
    if not by_table:
        under = f" under {noise}" if noise else ""
        raise ValueError(f"the line {title!r} has no runs{under}")
    return [figure for figures in by_table.values() for figure in figures]


class TableLine(NamedTuple):
    """A line with the table that it stands in."""

    data: str
    table: Table
    line: Line

    @property
    def title(self) -> str:
        return self.line.title

    @property
    def key(self) -> tuple[str, str]:
        """The same for both orders of the streams."""
        return self.data, self.table.preset

    @property
    def where(self) -> str:
        return f"{self.data}, {self.table.title}{', in the order of the files' if self.table.listed else ''}"


def _lines(contents: Contents) -> Iterator[TableLine]:
    for group, tables in contents.tables.items():
        for table in tables:
            yield from (TableLine(NAMES[group.data], table, line) for line in table.lines)


def _figure(heading: str, cell: CellRuns, purity: bool) -> Figure:
    seeds = ", ".join(str(row["seed"]) for row in cell.rows)
    accuracy = sum(row["last_accuracy"] for row in cell.rows) / len(cell.rows)
    known = [row["memory_purity"] for row in cell.rows if row["memory_purity"] is not None] if purity else []
    also = f", memory purity {sum(known) / len(known):.2%}" if known else ""
    return Figure(f"{heading}, {cell.column.noise}: {accuracy:.2%}{also}, seeds {seeds}", cell.rows, cell.older)

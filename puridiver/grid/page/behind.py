"""Which rows of a ledger a figure of the results page is made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

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
    """The figures of every table's line of this title, under one noise or all."""
    contents = sort_rows([{**row, NUMBER: number} for number, row in enumerate(rows, start=1)])
    lines = list(_lines(contents))
    named = [(where, line) for where, line in lines if line.title == title]
    if not named:
        titles = sorted({line.title for _, line in lines if line.was_run})
        raise ValueError(f"no table has a line {title!r}; lines with runs are: {'; '.join(titles) or 'none'}")
    noises = sorted({cell.column.noise for _, line in named for cell in line.cells})
    if noise is not None and noise not in noises:
        raise ValueError(f"the line {title!r} has no noise {noise!r}, but {', '.join(noises)}")
    found = [(where, cell) for where, line in named for cell in line.cells if noise in (None, cell.column.noise)]
    figures = [_figure(f"{where}: {title}", cell) for where, cell in found if cell.rows]
    if not figures:
        under = f" under {noise}" if noise else ""
        raise ValueError(f"the line {title!r} has no runs{under}")
    return figures


def _lines(contents: Contents) -> Iterator[tuple[str, Line]]:
    for group, tables in contents.tables.items():
        for table in tables:
            yield from ((_where(NAMES[group.data], table), line) for line in table.lines)


def _where(data: str, table: Table) -> str:
    return f"{data}, {table.title}{', in the order of the files' if table.listed else ''}"


def _figure(heading: str, cell: CellRuns) -> Figure:
    seeds = ", ".join(str(row["seed"]) for row in cell.rows)
    accuracy = sum(row["last_accuracy"] for row in cell.rows) / len(cell.rows)
    return Figure(f"{heading}, {cell.column.noise}: {accuracy:.2%}, seeds {seeds}", cell.rows, cell.older)

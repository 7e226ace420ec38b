"""What the order of the published streams changes: shuffled, as the released program has them, or as listed."""

from __future__ import annotations

from puridiver.grid.page.sections import by_seed
from puridiver.grid.page.tables import Line, Table
from puridiver.report.table import as_markdown

NOTE = (
    "Shuffled less listed, in points of last accuracy: the mean over the seeds that were run both ways ± its standard "
    "error (number of those seeds). What is not here was run in one order alone. Two errors and more are told apart; "
    "of many such comparisons one in ten or so will be by chance."
)


def section(shuffled: Table, listed: Table) -> str:
    """Methods by noises; empty if nothing was run in both orders."""
    pairs = [(line, listed.line(line.title)) for line in shuffled.lines]
    lines = [(line.title, *_differences(line, other)) for line, other in pairs]
    lines = [cells for cells in lines if any(cells[1:])]
    return f"{NOTE}\n\n{as_markdown(lines, ('method', *shuffled.noises))}" if lines else ""


def _differences(line: Line, other: Line) -> list[str]:
    return [_difference(line, other, c) for c in range(len(line.cells))]


def _difference(line: Line, other: Line, c: int) -> str:
    both = {row["seed"] for row in line.cells[c].rows} & {row["seed"] for row in other.cells[c].rows}
    return f"{by_seed(line.cells[c], other.cells[c]).text} ({len(both)})" if both else ""

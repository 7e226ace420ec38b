"""What the order of the published streams changes: shuffled, as the released program has them, or as listed."""

from __future__ import annotations

from puridiver.grid.page.sections import by_seed
from puridiver.grid.page.tables import CellRuns, Table
from puridiver.grid.page.verdicts import Comparison
from puridiver.report.table import as_markdown

NOTE = (
    "Shuffled less listed, in points of last accuracy: the mean over the seeds that were run both ways ± its standard "
    "error (number of those seeds; p by a paired t-test: how often chance alone would give as much). What is not here "
    "was run in one order alone."
)


def section(shuffled: Table, listed: Table) -> str:
    """Methods by noises; empty if nothing was run in both orders."""
    pairs = [(line, listed.find(line.title)) for line in shuffled.lines]
    lines = [(line.title, *map(_difference, line.cells, other.cells)) for line, other in pairs if other is not None]
    lines = [cells for cells in lines if any(cells[1:])]
    return f"{NOTE}\n\n{as_markdown(lines, ('method', *shuffled.noises))}" if lines else ""


def _difference(cell: CellRuns, other: CellRuns) -> str:
    found = by_seed(cell, other)
    return f"{found.text} ({_sureness(found)})" if found.pairs else ""


def _sureness(found: Comparison) -> str:
    return str(found.pairs) + ("" if found.chance is None else f"; p = {found.chance:.2f}")

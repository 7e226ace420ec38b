"""Lines of a table less others, seed by seed: the parts of an ablation, and the orders of the streams."""

from __future__ import annotations

from collections.abc import Iterable

from puridiver.grid.page.sections import by_seed
from puridiver.grid.page.tables import CellRuns, Line, Table
from puridiver.grid.page.verdicts import Comparison, p_text
from puridiver.report.table import as_markdown

MEANING = (
    "in points of last accuracy: the mean over the seeds that were run both ways ± its standard error (number of those "
    "seeds; p by a paired t-test: how often chance alone would give as much)."
)
WHOLE = {"table3": "re-label + consistency", "table4": "adaptive"}  # the method of which the other lines are parts


def differences(pairs: Iterable[tuple[Line, Line]], noises: Iterable[str]) -> str:
    """Each first line less the second, noise by noise; empty if none was run on a seed of the other."""
    lines = [(line.title, *map(_difference, line.cells, other.cells)) for line, other in pairs]
    lines = [cells for cells in lines if any(cells[1:])]
    return as_markdown(lines, ("method", *noises)) if lines else ""


def parts_less_the_whole(table: Table) -> str:
    """What an ablation's lines are worth against the whole method of the same recipe; empty for other tables."""
    title = WHOLE.get(table.preset)
    if title is None:
        return ""
    pairs = [(line, table.find(title + _suffix(line))) for line in table.lines]
    found = differences([(line, whole) for line, whole in pairs if whole not in (None, line)], table.noises)
    return f"Each line less *{title}*, {MEANING}\n\n{found}" if found else ""


def _suffix(line: Line) -> str:
    """What tells lines of one method apart, such as the recipe."""
    return line.title.removeprefix(line.method.title)


def _difference(cell: CellRuns, other: CellRuns) -> str:
    found = by_seed(cell, other)
    return f"{found.text} ({_sureness(found)})" if found.pairs else ""


def _sureness(found: Comparison) -> str:
    return str(found.pairs) + ("" if found.chance is None else f"; p = {p_text(found.chance)}".replace("= <", "< "))

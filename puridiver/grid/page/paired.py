"""Lines of a table less others, seed by seed: the parts of an ablation, and the orders of the streams."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from puridiver.grid.page.pooled import against
from puridiver.grid.page.sections import by_seed
from puridiver.grid.page.tables import CellRuns, Line, Table
from puridiver.grid.page.verdicts import Comparison, p_text
from puridiver.report.table import as_markdown

MEANING = (
    "in points of last accuracy: the mean over the seeds that were run both ways ± its standard error (number of those "
    "seeds; p by a paired t-test: how often chance alone would give as much)."
)
TOGETHER = (
    "in points of last accuracy: the mean over the seeds that were run both ways ± its standard error (number of those "
    "seeds; p: how often chance alone would give as much, in this line and *among all* of its recipe and noise). Where "
    "four lines or more of a recipe were run more than once under a noise, error and p come from the spread of all of "
    "them together, as in the tables of the rows of FIDELITY.md, else from a paired t-test."
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
    parts_of: dict[str, list[Line]] = {}
    for line in table.lines:
        parts_of.setdefault(title + _suffix(line), []).append(line)
    lines = [cells for whole, parts in parts_of.items() for cells in _less(table.find(whole), parts) if any(cells[1:])]
    found = as_markdown(lines, ("method", *table.noises)) if lines else ""
    return f"Each line less *{title}*, {TOGETHER}\n\n{found}" if found else ""


def _less(whole: Line | None, parts: Sequence[Line]) -> list[tuple[str, ...]]:
    """Each part less the whole, noise by noise, judged by the spread of all of them."""
    others = [line for line in parts if line is not whole]
    if whole is None or not others:
        return []
    columns = [against(cell, [line.cells[c] for line in others]) for c, cell in enumerate(whole.cells)]
    return [(line.title, *map(_told, found)) for line, found in zip(others, zip(*columns, strict=True), strict=True)]


def _suffix(line: Line) -> str:
    """What tells lines of one method apart, such as the recipe."""
    return line.title.removeprefix(line.method.title)


def _difference(cell: CellRuns, other: CellRuns) -> str:
    return _told(by_seed(cell, other))


def _told(found: Comparison) -> str:
    return f"{found.text} ({_sureness(found)})" if found.pairs else ""


def _sureness(found: Comparison) -> str:
    chance = "" if found.chance is None else f"; p = {p_text(found.chance)}"
    among = "" if found.corrected is None else f", among all {p_text(found.corrected)}"
    return str(found.pairs) + chance.replace("= <", "< ") + among

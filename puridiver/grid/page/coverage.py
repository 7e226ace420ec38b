"""How much of the paper the ledger has run: a few lines for a reader who will not open the long page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from puridiver.grid.page.tables import Contents, Line, Table
from puridiver.grid.presets import PRESETS
from puridiver.grid.table import NAMES
from puridiver.report.table import as_markdown

TITLES = {
    "table1": "Table 1", "table2": "Table 2", "table3": "Table 3", "table4": "Table 4",
    "disjoint": "the supplement's disjoint tasks",
    "fidelity-official": "each row of FIDELITY.md, from `official`", "fidelity-paper": "the same, from `paper`",
}  # fmt: skip
HEADINGS = ("methods by noises", "cells", "run", "of them with three seeds")
ENOUGH = 3  # seeds, as the paper has


def coverage(contents: Contents) -> str:
    """A line for each of the paper's tables and data sets, and for the fidelity ablation."""
    lines = [
        (f"{title}, {NAMES[data]}", *_counts(preset, data, contents))
        for preset, title in TITLES.items()
        for data in PRESETS[preset].data
    ]
    note = (
        "How much of the paper's tables was run, in full and on the GPU, on published streams in either order (the "
        "disjoint tasks: on generated ones). Co-teaching that is not told the noise is plain training (row 17), and "
        "counts as run where that was."
    )
    return f"{note}\n\n{as_markdown(lines, HEADINGS)}"


def _counts(preset: str, data: str, contents: Contents) -> tuple[str, str, str]:
    seeds = list(_seeds(preset, contents.tables_of(data, preset)))
    return str(len(seeds)), str(sum(n > 0 for n in seeds)), str(sum(n >= ENOUGH for n in seeds))


def _seeds(preset: str, tables: Sequence[Table]) -> Iterator[int]:
    """How many seeds each cell of the preset has, by the order of the streams that has most."""
    methods, noises = PRESETS[preset].methods, PRESETS[preset].noises
    for method in methods:
        for noise in noises:
            found = [_runs(table, line, noise) for table in tables for line in _lines(table, method.title)]
            yield max(found, default=0)


def _lines(table: Table, title: str) -> list[Line]:
    return [line for line in table.lines if line.method.title == title]


def _runs(table: Table, line: Line, noise: str) -> int:
    """Of a line that needs no runs of its own, those of the one that it is."""
    stands_for = table.find(line.stands_for) if line.stands_for else None
    return sum(len(cell.rows) for cell in (stands_for or line).cells if cell.column.noise == noise)

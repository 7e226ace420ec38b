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
    "fidelity-official": "rows 1 to 15 of FIDELITY.md, from `official`", "fidelity-paper": "the same, from `paper`",
}  # fmt: skip
HEADINGS = ("methods by noises", "cells", "run", "of them with three seeds", "not run, but the same as one that was")
ENOUGH = 3  # seeds, as the paper has


def coverage(contents: Contents) -> str:
    """A line for each of the paper's tables and data sets, and for the fidelity ablation."""
    lines = [
        (f"{title}, {NAMES[data]}", *_counts(preset, data, contents))
        for preset, title in TITLES.items()
        for data in PRESETS[preset].data
    ]
    note = (
        "How much of the paper's tables was run on the GPU, on published streams in either order (the disjoint tasks: "
        "on generated ones, SPR with the share of its epochs that [SPR.md](docs/SPR.md) tells). Co-teaching that "
        "is not told the noise drops nothing, which is plain training (row 17): it counts as run where it was told, "
        "and else, where plain training was run, stands in the last column. So does row 3 from `paper`, which changes "
        "nothing there."
    )
    return f"{note}\n\n{as_markdown(lines, HEADINGS)}"


def _counts(preset: str, data: str, contents: Contents) -> tuple[str, ...]:
    tables = contents.tables_of(data, preset)
    cells = [(method.title, noise) for method in PRESETS[preset].methods for noise in PRESETS[preset].noises]
    seeds = [max(_runs(tables, *cell), default=0) for cell in cells]
    same = sum(any(_runs_of_another(tables, *cell)) for cell, n in zip(cells, seeds, strict=True) if not n)
    return str(len(cells)), str(sum(n > 0 for n in seeds)), str(sum(n >= ENOUGH for n in seeds)), str(same)


def _runs(tables: Sequence[Table], title: str, noise: str) -> Iterator[int]:
    """How many seeds of a cell each order of the streams has."""
    for table in tables:
        for line in _lines(table, title):
            yield 0 if line.stands_for else _seeds(line, noise)


def _runs_of_another(tables: Sequence[Table], title: str, noise: str) -> Iterator[int]:
    """Of a line that needs no runs of its own, as it is another's, how many that one has."""
    for table in tables:
        for line in _lines(table, title):
            other = table.find(line.stands_for) if line.stands_for else None
            yield 0 if other is None else _seeds(other, noise)


def _lines(table: Table, title: str) -> list[Line]:
    return [line for line in table.lines if line.method.title == title]


def _seeds(line: Line, noise: str) -> int:
    return sum(len(cell.rows) for cell in line.cells if cell.column.noise == noise)

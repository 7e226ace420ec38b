"""The tables of the results page as Markdown: a grid of methods and noises, then every figure of the cells run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from puridiver.grid.detail import HEADINGS, cell_line
from puridiver.grid.page.tables import CellRuns, Line, Table
from puridiver.grid.page.verdicts import NOT_RUN, Comparison, compare
from puridiver.grid.table import Entry, known_figure, make_entry
from puridiver.grid.variants import Row
from puridiver.report.table import as_markdown

FIGURES = (
    "last accuracy %", "seeds", "best epoch %", "paper %", "rerun, last epoch %", "purity %", "diversity", "seconds",
)  # fmt: skip
WITH_DEVIATION = ("last accuracy %", "best epoch %", "purity %")
ORIGIN = ("method", "seeds", "runs at once", "device", "precision", "commit", "streams", "set aside")
SHOWN = 8  # characters of a hash


def entry_of(table: Table, line: Line, cell: CellRuns) -> Entry:
    return make_entry(cell.rows, known_figure(table.paper, line.method.title, cell.column))


def ours(entry: Entry) -> str:
    """Mean ± deviation (seeds); of one seed there is no deviation."""
    if entry.mean is None:
        return NOT_RUN
    deviation = "-" if entry.deviation is None else f"{entry.deviation:.1f}"
    return f"{entry.mean:.1f} ± {deviation} ({entry.seeds})"


def by_seed(cell: CellRuns, other: CellRuns) -> Comparison:
    """A cell against another, on the seeds that both were run on."""
    return compare(pairs_by_seed(cell, other), bool(cell.rows))


def pairs_by_seed(cell: CellRuns, other: CellRuns) -> list[tuple[float, float]]:
    """Last accuracies % of both, seed by seed where both were run."""
    ours, theirs = ({row["seed"]: 100 * row["last_accuracy"] for row in found.rows} for found in (cell, other))
    return [(ours[seed], theirs[seed]) for seed in sorted(ours.keys() & theirs.keys())]


def folded(table: Table) -> str:
    """Every figure of every noise that has runs, to be unfolded: few will read them all."""
    run = {noise: any(line.cells[c].rows for line in table.lines) for c, noise in enumerate(table.noises)}
    parts = [_every_figure(table, c) for c, noise in enumerate(table.noises) if run[noise]]
    missing = [noise for noise in table.noises if not run[noise]]
    return "\n\n".join([*parts, *([f"No cell was run: {', '.join(missing)}."] if missing else [])])


def compact(table: Table) -> str:
    """Methods by noises: ours, and the paper's after a stroke."""
    return as_markdown([beside_the_paper(table, line) for line in table.lines], ("method", *table.noises))


def beside_the_paper(table: Table, line: Line, suffix: str = "") -> tuple[str, ...]:
    """A method and its figure under each noise, with the paper's after a stroke."""
    entries = [entry_of(table, line, cell) for cell in line.cells]
    figures = [f"as {line.stands_for}" if line.stands_for and not entry.seeds else ours(entry) for entry in entries]
    beside = (f" / {entry.paper}" if entry.paper else "" for entry in entries)
    return line.title + suffix, *(figure + paper for figure, paper in zip(figures, beside, strict=True))


def _every_figure(table: Table, c: int) -> str:
    """The figures of one noise's cells that were run, and where they come from."""
    run = [line for line in table.lines if line.cells[c].rows]
    figures = [(line.title, *_figures(table, line, line.cells[c])) for line in run]
    origins = [_origin(line.title, line.cells[c]) for line in run]
    parts = [as_markdown(figures, ("method", *FIGURES)), as_markdown(origins, ORIGIN)]
    missing = len(table.lines) - len(run)
    if missing:
        were, they = ("was", "it stands") if missing == 1 else ("were", "they stand")
        parts.append(
            f"{missing} of {len(table.lines)} cells {were} not run: {they} in the first table of this section alone."
        )
    summary = f"<summary>{table.noises[c]}: every figure ({len(run)} of {len(table.lines)} cells run)</summary>"
    return "\n\n".join([f"<details>{summary}", *parts, "</details>"])


def _figures(table: Table, line: Line, cell: CellRuns) -> list[str]:
    found = dict(zip(HEADINGS, cell_line(table.paper, line.method, cell.column, cell.rows), strict=True))
    if len(cell.rows) == 1:
        found |= {name: _without_deviation(found[name]) for name in WITH_DEVIATION if found[name] != "-"}
    return [found[name] for name in FIGURES]


def _without_deviation(figure: str) -> str:
    """The figure of one run, with a dash for its deviation before whatever mark it has."""
    mean, space, mark = figure.partition(" ")
    return f"{mean} ± -{space}{mark}"


def _origin(title: str, cell: CellRuns) -> tuple[str, ...]:
    """Where the figures of a cell come from."""
    rows = cell.rows
    return (
        title,
        ", ".join(str(row["seed"]) for row in rows),
        told(rows, "lanes", 1),
        told(rows, "device"),
        told(rows, "precision"),
        ", ".join(dict.fromkeys(str(row.get("commit") or "not told")[:SHOWN] for row in rows)),
        ", ".join(dict.fromkeys(str(row.get("stream_hash") or "not told")[:SHOWN] for row in rows)),
        str(len(cell.older)),
    )


def told(rows: Iterable[Row], name: str, otherwise: Any = "not told") -> str:
    """The values that rows have of something, each once."""
    return ", ".join(sorted({str(row.get(name, otherwise)) for row in rows}))


def sentence_of_cells(tables: Sequence[Table]) -> str:
    """How much of the tables has been run."""
    cells = [cell for table in tables for line in table.lines if not line.stands_for for cell in line.cells]
    return f"Of the {len(cells)} cells of the tables below {sum(bool(cell.rows) for cell in cells)} have runs."

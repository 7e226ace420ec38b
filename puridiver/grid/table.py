"""A grid's table: mean ± standard deviation over seeds beside the paper's figure, in four formats."""

from __future__ import annotations

import csv
import functools
import io
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from puridiver.grid.cells import Column, Grid
from puridiver.grid.measures import METRICS, Metric
from puridiver.grid.select import Asked, Selection, select
from puridiver.grid.variants import GENERATED, Row
from puridiver.report.environments import environment_notes
from puridiver.report.table import (
    DIVERGED_NOTE,
    as_sentence,
    count_diverged,
    latex_label,
    latex_table,
    markdown_row,
    markdown_text,
)
from puridiver.streams.names import PUBLISHED_KINDS

NAMES = {
    "digits": "digits", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "webvision": "WebVision",
    "food101n": "Food-101N",
}  # fmt: skip
NOT_RUN, NOT_RECORDED = "-", "not recorded"
LAST = METRICS["last"]
CSV_BEFORE = ("method", "data", "stream", "noise")
CSV_AFTER = ("standard deviation", "seeds", "paper %", "paper standard deviation")
CSV_DIVERGED = "diverged"


@dataclass(frozen=True)
class Entry:
    """One cell of a table: our mean and deviation over `seeds` runs, and the paper's figure as printed.

    `diverged` is how many of the runs ended with a network that predicts nan, `places` how many decimals are shown,
    `unrecorded` how many runs do not have the figure.
    """

    mean: float | None
    deviation: float | None
    seeds: int
    paper: str
    diverged: int = 0
    places: int = 1
    unrecorded: int = 0

    @property
    def ours(self) -> str:
        if self.mean is None:
            return NOT_RECORDED if self.unrecorded else NOT_RUN
        spread = "" if self.deviation is None else f" ± {self.deviation:.{self.places}f}"
        lost = f"; {self.diverged} diverged" if self.diverged else ""
        return f"{self.mean:z.{self.places}f}{spread} ({self.seeds}{lost})"

    @property
    def text(self) -> str:
        return f"{self.ours} [{self.paper}]" if self.paper else self.ours


@dataclass(frozen=True)
class Block:
    """The part of a table that is about one data set."""

    heading: str
    columns: tuple[Column, ...]
    lines: tuple[tuple[str, tuple[Entry, ...]], ...]


@dataclass(frozen=True)
class GridTable:
    """Everything that a format needs."""

    name: str
    title: str
    blocks: tuple[Block, ...]
    notes: tuple[str, ...]
    metric: Metric = LAST


@functools.cache
def paper_figures() -> dict[str, Any]:
    """The paper's tables, by preset: source, and figures by data, row and noise."""
    text = resources.files("puridiver.grid").joinpath("paper_figures.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def make_table(
    grid: Grid, rows: Sequence[Row], any_code: bool = False, code: str | None = None, asked: Asked | None = None,
    metric: Metric = LAST,
) -> GridTable:  # fmt: skip
    """The table of a grid from the rows of one or more ledgers; of a metric other than the last accuracy, if asked."""
    selection = select(grid, rows, any_code, code, asked)
    data_sets = dict.fromkeys(column.data for column in grid.columns)
    blocks = tuple(_block(grid, data, selection, metric) for data in data_sets)
    legend = _legend(grid, blocks, bool(selection.notes), metric)
    notes = (*legend, *selection.notes, *environment_notes(selection.rows.values()), *own_settings(grid))
    return GridTable(grid.name, grid.title, blocks, notes, metric)


def own_settings(grid: Grid) -> list[str]:
    """What the methods have of their own, which a heading tells of all together."""
    items = [[f"{name}={value}" for name, value in method.settings.items()] for method in grid.methods]
    common = set.intersection(*map(set, items)) if items else set()
    own = [[item for item in found if item not in common] for found in items]
    told = [f"{method.title} by {', '.join(found)}" for method, found in zip(grid.methods, own, strict=True) if found]
    return ["; ".join(told)] if told else []


def _block(grid: Grid, data: str, selection: Selection, metric: Metric) -> Block:
    numbers = [number for number, column in enumerate(grid.columns) if column.data == data]
    lines = tuple(
        (method.title, tuple(_entry(grid, m, c, selection.rows.get((m, c), []), metric) for c in numbers))
        for m, method in enumerate(grid.methods)
    )
    return Block(heading(data, selection.kinds.get(data)), tuple(grid.columns[c] for c in numbers), lines)


def heading(data: str, kind: dict[str, Any] | None) -> str:
    """The data and what all its runs have in common, for whoever wants to run them again."""
    name = NAMES.get(data, data)
    if kind is None:
        return f"{name}: not run"
    options = "".join(f", {option}={value}" for option, value in kind["options"].items())
    told = f", {'' if all(kind['told_noise']) else 'some '}told the noise" if any(kind["told_noise"]) else ""
    tailed = "" if kind["imbalance"] == "1" else f" with imbalance {kind['imbalance']}"
    return (
        f"{name}, {kind['stream']}{tailed}, {kind['tasks']} tasks, memory {kind['memory']}, {kind['network']}, "
        f"{kind['epochs']} epochs, recipe {kind['recipe']}{options}{told}, {kind['precision']}"
    )


def _entry(grid: Grid, m: int, c: int, rows: Sequence[Row], metric: Metric) -> Entry:
    """The paper's figures are last accuracies."""
    paper = known_figure(grid.paper, grid.methods[m].title, grid.columns[c]) if metric == LAST else ""
    return make_entry(rows, paper, metric.field, metric.scale)


def known_figure(source: str, title: str, column: Column) -> str:
    """What the paper, by its table, has for a method; empty where it has nothing."""
    figures = paper_figures().get(source, {"data": {}})["data"].get(column.data, {})
    return str(figures.get(title, {}).get(column.noise, ""))


def rerun_figure(title: str, column: Column) -> str:
    """What the independent rerun has; it ran the published blurry streams, and no disjoint tasks."""
    return known_figure("rerun", title, column) if column.stream in (*PUBLISHED_KINDS, GENERATED) else ""


def make_entry(rows: Sequence[Row], paper: str = "", figure: str = "last_accuracy", scale: float = 100.0) -> Entry:
    """A cell of the runs that count for it, one a seed; of another figure of theirs if asked for."""
    values = [row[figure] for row in rows if row.get(figure) is not None]
    if not values:
        return Entry(None, None, 0, paper, unrecorded=len(rows))
    deviation = scale * statistics.stdev(values) if len(values) > 1 else None
    places = 1 if scale > 1 else 2
    return Entry(scale * statistics.mean(values), deviation, len(values), paper, count_diverged(rows), places)


def _legend(grid: Grid, blocks: Sequence[Block], noted: bool, metric: Metric) -> list[str]:
    """What the signs mean; where notes tell of runs that are not shown, an empty cell may have some of those."""
    entries = _entries(blocks)
    found = [f"{metric.words}, mean ± standard deviation (seeds)"]
    if any(entry.diverged for entry in entries):
        found.append(DIVERGED_NOTE)
    if any(entry.paper for entry in entries):
        found.append(f"[...] the paper's {paper_figures()[grid.paper]['source']}")
    if any(entry.unrecorded for entry in entries):
        found.append(f"{NOT_RECORDED}: was run, without measuring this, or by a version that did not tell it")
    if any(entry.mean is None and not entry.unrecorded for entry in entries):
        found.append("- no run of these settings and this code" if noted else "- not run")
    absent = [method.title for method in grid.methods if not method.sampler]
    if absent:
        found.append(f"not in this package: {', '.join(absent)}")
    return found


def _entries(blocks: Sequence[Block]) -> list[Entry]:
    return [entry for block in blocks for _, line in block.lines for entry in line]


def column_title(column: Column, block: Block) -> str:
    """The noise, and the stream where the block has several."""
    noise = "real noise" if column.noise == "none" and column.data in ("webvision", "food101n") else column.noise
    several = len({other.stream for other in block.columns}) > 1
    return f"{column.stream}, {noise}" if several else noise


# Formats ----------------------------------------------------------------------------------------------------------


def _cells(block: Block) -> list[list[str]]:
    """Heading and lines of a block as text."""
    heading = ["method", *(column_title(column, block) for column in block.columns)]
    return [heading, *([title, *(entry.text for entry in entries)] for title, entries in block.lines)]


def as_text(table: GridTable) -> str:
    parts = [table.title]
    for block in table.blocks:
        cells = _cells(block)
        widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
        lines = ("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in cells)
        parts.append("\n".join([block.heading, *lines]))
    return "\n\n".join([*parts, "\n".join(table.notes)])


def as_markdown(table: GridTable) -> str:
    parts = [f"**{markdown_text(table.title)}**"]
    for block in table.blocks:
        heading, *lines = _cells(block)
        rows = [heading, ["---"] * len(heading), *lines]
        parts.append("\n".join([markdown_text(block.heading), "", *map(markdown_row, rows)]))
    return "\n\n".join([*parts, markdown_text("; ".join(table.notes)) + "."])


def as_csv(table: GridTable) -> str:
    """One line a cell, for programs; with a column for runs that diverged where there are any."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    lost = any(entry.diverged for entry in _entries(table.blocks))
    writer.writerow([*CSV_BEFORE, table.metric.heading, *CSV_AFTER, *([CSV_DIVERGED] if lost else [])])
    for block in table.blocks:
        for title, entries in block.lines:
            for column, entry in zip(block.columns, entries, strict=True):
                paper, _, paper_deviation = entry.paper.partition(" ± ")
                ours = ["" if value is None else f"{value:.3f}" for value in (entry.mean, entry.deviation)]
                where = (title, column.data, column.stream, column.noise)
                diverged = [entry.diverged] if lost else []
                writer.writerow([*where, *ours, entry.seeds, paper, paper_deviation, *diverged])
    return text.getvalue().rstrip("\n")


def as_latex(table: GridTable) -> str:
    """booktabs tables, one a data set."""
    return "\n\n".join(_latex_block(table, block) for block in table.blocks)


def _latex_block(table: GridTable, block: Block) -> str:
    heading, *lines = _cells(block)
    caption = f"{as_sentence(table.title)} {as_sentence(block.heading)}"
    other_metric = "" if table.metric == LAST else table.metric.field
    label = latex_label(table.name, block.columns[0].data, other_metric)
    return latex_table(heading, lines, caption, label, as_sentence("; ".join(table.notes)))


FORMATS = {"text": as_text, "markdown": as_markdown, "csv": as_csv, "latex": as_latex}

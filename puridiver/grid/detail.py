"""Every cell of a grid with all its figures: accuracy, the paper's and an independent rerun's, purity, time, device."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from puridiver.grid.cells import Column, Grid, Method
from puridiver.grid.select import select
from puridiver.grid.table import NAMES, NOT_RUN, heading, known_figure, own_settings, rerun_figure
from puridiver.grid.variants import Row, stream_shown
from puridiver.report.environments import environment_notes
from puridiver.report.numbers import DIVERGED, deviation_heading, mean_and_deviation
from puridiver.report.table import DIVERGED_NOTE, count_diverged, diverged_mark, seconds_of, spread

HEADINGS = (
    "data", "stream", "method", "noise", "last accuracy %", "seeds", "best epoch %", "paper %", "rerun, last epoch %",
    "average %", "anytime %", "forgetting", "purity %", "diversity", "seconds", "device",
)  # fmt: skip
# For programs: of each figure mean, standard deviation, and of how many seeds they are.
NUMBERS = {
    "last accuracy %": ("last_accuracy", 100.0), "best epoch %": ("best_epoch_accuracy", 100.0),
    "average %": ("average_accuracy", 100.0), "anytime %": ("anytime_area", 100.0),
    "forgetting": ("forgetting", 100.0), "purity %": ("memory_purity", 100.0), "diversity": ("memory_diversity", 1.0),
}  # fmt: skip
CSV_HEADINGS = (
    "data", "stream", "method", "noise", "seeds", DIVERGED,
    *(heading for name in NUMBERS for heading in (name, deviation_heading(name), f"{name.removesuffix(' %')} seeds")),
    "paper %", "paper standard deviation", "rerun, last epoch %", "rerun standard deviation", "rerun seeds",
    "seconds", "lanes", "device",
)  # fmt: skip
LEGEND = (
    "last accuracy: true last epoch, mean ± standard deviation over seeds",
    "best epoch: chosen by looking at the test set, as the released program reports it; not a fair figure",
    "rerun: an independent published rerun of the released program",
    "average: mean over the ends of the tasks; forgetting: mean drop on earlier tasks' classes, in points",
    "anytime: mean over the whole stream, also between trainings on the memory",
    "seconds of a run; where several shared the device, their number follows",
    "- not run, or not measured",
)


def detail(grid: Grid, rows: Sequence[Row], any_code: bool = False) -> tuple[list[tuple[str, ...]], list[str]]:
    """One line a cell, those that were not run too; and notes for the reader."""
    selection = select(grid, rows, any_code)
    lines = [
        cell_line(grid.paper, method, column, selection.rows.get((m, c), []))
        for c, column in enumerate(grid.columns)
        for m, method in enumerate(grid.methods)
    ]
    shown = [f"shown: {heading(data, kind)}" for data, kind in selection.kinds.items()]
    lost = [DIVERGED_NOTE] if any(map(count_diverged, selection.rows.values())) else []
    environments = environment_notes(selection.rows.values())
    return lines, [*shown, *LEGEND, *lost, *selection.notes, *environments, *own_settings(grid)]


def cell_line(paper: str, method: Method, column: Column, rows: Sequence[Row]) -> tuple[str, ...]:
    """What stands under `HEADINGS` for the runs of one cell; `paper` names the paper's table."""
    return (
        NAMES.get(column.data, column.data),
        stream_shown(column, rows),
        method.title,
        column.noise,
        _spread(rows, "last_accuracy") + diverged_mark(rows),
        str(len(rows)),
        _best_epoch(rows),
        known_figure(paper, method.title, column) or NOT_RUN,
        rerun_figure(method.title, column) or NOT_RUN,
        _spread(rows, "average_accuracy"),
        _spread(rows, "anytime_area"),
        _spread(rows, "forgetting"),
        _spread(rows, "memory_purity"),
        _spread(rows, "memory_diversity", lambda values: f"{statistics.mean(values):.2f}"),
        _time(rows),
        ", ".join(sorted({str(row["device"]) for row in rows})) or NOT_RUN,
    )


def detail_numbers(grid: Grid, rows: Sequence[Row], any_code: bool = False) -> list[tuple[str, ...]]:
    """The lines of `detail` as numbers alone, under `CSV_HEADINGS`; what is not known is empty."""
    selection = select(grid, rows, any_code)
    return [
        _cell_numbers(grid.paper, method, column, selection.rows.get((m, c), []))
        for c, column in enumerate(grid.columns)
        for m, method in enumerate(grid.methods)
    ]


def _cell_numbers(paper: str, method: Method, column: Column, rows: Sequence[Row]) -> tuple[str, ...]:
    figures = []
    for field, scale in NUMBERS.values():
        values = [row[field] for row in rows if row.get(field) is not None]
        figures += [*mean_and_deviation(values, scale), str(len(values))]
    lanes = {row.get("lanes", 1) for row in rows}
    return (
        NAMES.get(column.data, column.data),
        stream_shown(column, rows),
        method.title,
        column.noise,
        str(len(rows)),
        str(count_diverged(rows)),
        *figures,
        *_published(known_figure(paper, method.title, column))[:2],
        *_published(rerun_figure(method.title, column)),
        seconds_of(rows).replace("-", "") if rows else "",
        str(lanes.pop()) if len(lanes) == 1 else "",
        ", ".join(sorted({str(row["device"]) for row in rows})),
    )


def _published(text: str) -> tuple[str, str, str]:
    """A figure such as "57.1 ± 1.9 (3)": its mean, its deviation, its seeds."""
    figure, _, seeds = text.partition(" (")
    mean, _, deviation = figure.partition(" ± ")
    return mean, deviation, seeds.removesuffix(")")


def _spread(rows: Sequence[Row], name: str, show: Callable[[Sequence[float]], str] = spread) -> str:
    """Of the rows that have a value; where not all do, their number follows."""
    values = [row[name] for row in rows if row.get(name) is not None]
    if not values:
        return NOT_RUN
    return show(values) + (f" ({len(values)})" if len(values) < len(rows) else "")


def _best_epoch(rows: Sequence[Row]) -> str:
    """Where only some runs were looked at epoch by epoch, beside what those came to in the end."""
    looked_at = [row for row in rows if row.get("best_epoch_accuracy") is not None]
    if not looked_at or len(looked_at) == len(rows):
        return _spread(rows, "best_epoch_accuracy")
    best, last = (spread([row[name] for row in looked_at]) for name in ("best_epoch_accuracy", "last_accuracy"))
    return f"{best} ({len(looked_at)}; last {last})"


def _time(rows: Sequence[Row]) -> str:
    if not rows:
        return NOT_RUN
    lanes = {row.get("lanes", 1) for row in rows}
    return seconds_of(rows) + (f" (of {lanes.pop()})" if len(lanes) == 1 and lanes != {1} else "")

"""The methods of a grid against one of them: differences seed by seed, with an interval and a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from puridiver.grid.cells import Grid
from puridiver.grid.define import same_title
from puridiver.grid.page.verdicts import UNKNOWN, compare, p_text
from puridiver.grid.select import select
from puridiver.grid.table import NAMES, heading
from puridiver.grid.variants import Row, row_kind
from puridiver.report.table import DIVERGED_NOTE, count_diverged, diverged_mark
from puridiver.runs import without_folder

HEADINGS = ("data", "stream", "noise", "method", "seeds", "mean", "against", "difference", "95 % interval", "p")


class Metric(NamedTuple):
    """A figure of a row, what it is called in words, and what to multiply it by."""

    field: str
    words: str
    scale: float = 100.0


METRICS: Mapping[str, Metric] = {
    "last": Metric("last_accuracy", "last accuracy %"),
    "average": Metric("average_accuracy", "average accuracy %, over the ends of the tasks"),
    "anytime": Metric("anytime_area", "anytime accuracy %, over the whole stream"),
    "forgetting": Metric("forgetting", "forgetting, points"),
    "purity": Metric("memory_purity", "memory purity %"),
    "diversity": Metric("memory_diversity", "memory diversity", 1.0),
}


def against(
    grid: Grid, rows: Sequence[Row], title: str, metric: str = "last", any_code: bool = False
) -> tuple[list[tuple[str, ...]], list[str]]:
    """A line for each other method and column, by the seeds that both were run on; and notes for the reader."""
    base = next((m for m, method in enumerate(grid.methods) if same_title(method.title, title)), None)
    if base is None:
        known = ", ".join(repr(method.title) for method in grid.methods)
        raise ValueError(f"there is no method {title!r} in the grid; its methods are {known}")
    selection, chosen, lines = select(grid, rows, any_code), METRICS[metric], []
    for c, column in enumerate(grid.columns):
        base_rows = selection.rows.get((base, c), [])
        for m, method in enumerate(grid.methods):
            if m == base:
                continue
            found = selection.rows.get((m, c), [])
            streams = dict.fromkeys(map(row_kind, [*found, *base_rows])) or (column.stream,)
            stream = ", ".join(str(without_folder(stream)) for stream in streams)
            where = (NAMES.get(column.data, column.data), stream, column.noise, method.title)
            lines.append((*where, *_compared(found, base_rows, chosen)))
    shown = [f"shown: {heading(data, kind)}" for data, kind in selection.kinds.items()]
    legend = [
        f"{chosen.words}: each method against {grid.methods[base].title}, by the seeds that both were run on",
        "difference: mean ± standard error; interval and p by a paired t-test, of two sides and of each line alone",
        "- not run, too few seeds, or the same difference on every seed, which leaves nothing to judge it by",
    ]
    lost = [DIVERGED_NOTE] if any(map(count_diverged, selection.rows.values())) else []
    return lines, [*shown, *legend, *lost, *selection.notes]


def _by_seed(rows: Sequence[Row], metric: Metric) -> dict[int, Row]:
    return {row["seed"]: row for row in rows if row.get(metric.field) is not None}


def _compared(rows: Sequence[Row], base_rows: Sequence[Row], metric: Metric) -> tuple[str, ...]:
    ours, theirs = _by_seed(rows, metric), _by_seed(base_rows, metric)
    both = sorted(ours.keys() & theirs.keys())
    if not both:
        return ("0", *([UNKNOWN] * 5))
    found = compare([(_value(ours[seed], metric), _value(theirs[seed], metric)) for seed in both])
    interval = found.interval
    return (
        str(len(both)),
        *(_mean([of_seed[seed] for seed in both], metric) for of_seed in (ours, theirs)),
        found.text,
        UNKNOWN if interval is None else f"{interval[0]:+.2f} to {interval[1]:+.2f}",
        p_text(found.chance, 3),
    )


def _value(row: Row, metric: Metric) -> float:
    return float(metric.scale * row[metric.field])


def _mean(rows: Sequence[Row], metric: Metric) -> str:
    return f"{sum(_value(row, metric) for row in rows) / len(rows):.2f}{diverged_mark(rows)}"

"""The methods of a grid against one of them: differences seed by seed, with an interval and a test."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from puridiver.grid.cells import Grid
from puridiver.grid.define import same_title
from puridiver.grid.measures import METRICS, Metric
from puridiver.grid.select import select
from puridiver.grid.table import NAMES, heading, own_settings
from puridiver.grid.variants import Row, stream_shown
from puridiver.grid.verdicts import UNKNOWN, Comparison, compare, compare_together, holm, p_text
from puridiver.report.environments import environment_notes
from puridiver.report.table import DIVERGED_NOTE, count_diverged, diverged_mark

HEADINGS = (
    "data",
    "stream",
    "noise",
    "method",
    "pairs",
    "mean",
    "against",
    "difference",
    "95 % interval",
    "p",
    "p, corrected",
)
CSV_HEADINGS = (
    "data", "stream", "noise", "method", "metric", "pairs", "mean", "against", "difference", "standard_error",
    "low_95", "high_95", "p", "p_corrected",
)  # fmt: skip
Pairs = list[tuple[Row, Row]]  # of one column: a run and that of the method to compare with, on the same seed
CORRECTED_NOTE = (
    "p, corrected: for the number of all lines of single noises together, of every noise, stream and data (Holm)"
)
ALL_CORRECTED_NOTE = "that of the lines all N: for the number of these lines alone"
ALL_NOTE = (
    "all N: the mean of the differences under N noises that have any, each counting alike; its error is from one "
    "spread of seeds that all of them are taken to share, as if a seed's differences under several noises were "
    "independent; it is not known (-) where each noise has a single seed"
)


@dataclass(frozen=True)
class Compared:
    """A method against another in one column, or in several together: where, their means, and the difference."""

    where: tuple[str, str, str, str]  # data, stream, noise, method
    metric: str  # what is compared, as a CSV calls it
    pairs: str = "0"
    means: tuple[float, ...] = ()
    marks: tuple[str, ...] = ("", "")  # of runs that diverged
    found: Comparison | None = None

    def with_corrected(self, chances: Iterator[float]) -> Compared:
        """With the next of the corrected p, where it has one to correct."""
        if self.found is None or self.found.chance is None:
            return self
        return dataclasses.replace(self, found=dataclasses.replace(self.found, corrected=next(chances)))

    def text(self) -> tuple[str, ...]:
        """Under `HEADINGS`."""
        if self.found is None:
            return (*self.where, self.pairs, *([UNKNOWN] * (len(HEADINGS) - 5)))
        interval = self.found.interval
        return (
            *self.where,
            self.pairs,
            *(f"{mean:.2f}{mark}" for mean, mark in zip(self.means, self.marks, strict=True)),
            self.found.text,
            UNKNOWN if interval is None else f"{interval[0]:+.2f} to {interval[1]:+.2f}",
            p_text(self.found.chance, 3),
            p_text(self.found.corrected, 3),
        )

    def numbers(self) -> tuple[str, ...]:
        """Under `CSV_HEADINGS`, for programs: what is not known is empty."""
        if self.found is None:
            return (*self.where, self.metric, self.pairs, *([""] * (len(CSV_HEADINGS) - 6)))
        values = (*self.means, self.found.difference, self.found.error, *(self.found.interval or (None, None)))
        return (
            *self.where,
            self.metric,
            self.pairs,
            *("" if value is None else f"{value:.6g}" for value in (*values, self.found.chance, self.found.corrected)),
        )


def against(
    grid: Grid, rows: Sequence[Row], title: str, metric: str = "last", any_code: bool = False
) -> tuple[list[Compared], list[str]]:
    """A line for each other method and column, by the seeds that both were run on; and notes for the reader.

    Where a method was compared in several columns of one data set and stream, a line is of all of them together.
    """
    base = next((m for m, method in enumerate(grid.methods) if same_title(method.title, title)), None)
    if base is None:
        known = ", ".join(repr(method.title) for method in grid.methods)
        raise ValueError(f"there is no method {title!r} in the grid; its methods are {known}")
    selection, chosen, lines = select(grid, rows, any_code), METRICS[metric], []
    compared: dict[tuple[str, str, str], list[Pairs]] = {}
    sides: list[list[Row]] = []  # of each line the runs of both methods
    for c, column in enumerate(grid.columns):
        base_rows = selection.rows.get((base, c), [])
        for m, method in enumerate(grid.methods):
            if m == base:
                continue
            found = selection.rows.get((m, c), [])
            stream = stream_shown(column, [*found, *base_rows])
            data, pairs = NAMES.get(column.data, column.data), _pairs(found, base_rows, chosen)
            compared.setdefault((data, stream, method.title), []).append(pairs)
            sides.append([row for pair in pairs for row in pair])
            lines.append(_compared((data, stream, column.noise, method.title), pairs, chosen))
    lines, together = _corrected(lines), _corrected(_together(compared, chosen))
    shown = [f"shown: {heading(data, kind)}" for data, kind in selection.kinds.items()]
    legend = [
        f"{chosen.words}: each method against {grid.methods[base].title}, by the seeds that both were run on",
        "difference: mean ± standard error; interval and p by a paired t-test, of two sides and of each line alone",
        CORRECTED_NOTE,
        *([ALL_CORRECTED_NOTE, ALL_NOTE] if together else []),
        "the sign - stands where there is nothing to show: not run, not recorded, too few seeds, or the same "
        "difference (not 0) on every seed, which leaves nothing to judge it by",
    ]
    lost = [DIVERGED_NOTE] if any(map(count_diverged, selection.rows.values())) else []
    notes = [*selection.notes, *environment_notes(sides, of="comparison")]
    return [*lines, *together], [*shown, *legend, *lost, *notes, *own_settings(grid)]


def _pairs(rows: Sequence[Row], base_rows: Sequence[Row], metric: Metric) -> Pairs:
    ours, theirs = _by_seed(rows, metric), _by_seed(base_rows, metric)
    return [(ours[seed], theirs[seed]) for seed in sorted(ours.keys() & theirs.keys())]


def _by_seed(rows: Sequence[Row], metric: Metric) -> dict[int, Row]:
    return {row["seed"]: row for row in rows if row.get(metric.field) is not None}


def _compared(where: tuple[str, str, str, str], pairs: Pairs, metric: Metric) -> Compared:
    if not pairs:
        return Compared(where, metric.heading)
    return Compared(where, metric.heading, str(len(pairs)), *_means([pairs], metric), compare(_values(pairs, metric)))


def _together(compared: Mapping[tuple[str, str, str], Sequence[Pairs]], metric: Metric) -> list[Compared]:
    """Of each method the mean of its differences over the columns that have any, where these are several."""
    lines = []
    for (data, stream, title), columns in compared.items():
        run = [pairs for pairs in columns if pairs]
        if len(run) > 1:
            where, pairs = (data, stream, f"all {len(run)}", title), str(sum(map(len, run)))
            found = compare_together([_values(pairs, metric) for pairs in run])
            lines.append(Compared(where, metric.heading, pairs, *_means(run, metric), found))
    return lines


def _corrected(lines: Sequence[Compared]) -> list[Compared]:
    """With each p also as if it were one of so many: of a dozen lines one has a small p by chance alone."""
    chances = [line.found.chance for line in lines if line.found is not None and line.found.chance is not None]
    corrected = iter(holm(chances))
    return [line.with_corrected(corrected) for line in lines]


def _values(pairs: Pairs, metric: Metric) -> list[tuple[float, float]]:
    return [(_value(ours, metric), _value(theirs, metric)) for ours, theirs in pairs]


def _value(row: Row, metric: Metric) -> float:
    return float(metric.scale * row[metric.field])


def _means(columns: Sequence[Pairs], metric: Metric) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Of each side the mean of the columns' means, and a mark of runs that diverged."""
    sides = [[[pair[side] for pair in pairs] for pairs in columns] for side in (0, 1)]
    means = [[statistics.mean(_value(row, metric) for row in rows) for rows in side] for side in sides]
    marks = [diverged_mark([row for rows in side for row in rows]) for side in sides]
    return tuple(map(statistics.mean, means)), tuple(marks)

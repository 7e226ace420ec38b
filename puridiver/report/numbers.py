"""Finished runs as numbers, for programs: of each figure the mean and the standard deviation in a column of its own."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from puridiver.report.table import count_diverged, labelled, seconds_of
from puridiver.report.titles import Title

FIGURES = {
    "last accuracy %": "last_accuracy", "average %": "average_accuracy", "anytime %": "anytime_area",
    "purity %": "memory_purity",
}  # fmt: skip
DIVERGED = "diverged"


def deviation_heading(figure: str) -> str:
    return f"{figure.removesuffix(' %')} standard deviation"


def mean_and_deviation(values: Sequence[float], scale: float = 100.0) -> tuple[str, str]:
    """Over seeds; empty where there are too few values."""
    mean = f"{scale * statistics.mean(values):z.3f}" if values else ""
    return mean, f"{scale * statistics.stdev(values):.3f}" if len(values) > 1 else ""


def summary_numbers(
    rows: Sequence[dict[str, Any]], titles: Mapping[str, Title]
) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """What `summarise_titled` shows to people, and its headings; what is not known is empty.

    With a column for runs that diverged where there are any.
    """
    kinds, headings = labelled(rows, titles)
    lost = any(count_diverged(members) for members, _ in kinds)
    columns = [heading for figure in FIGURES for heading in (figure, deviation_heading(figure))]
    lines = [(*labels, *_numbers(members), *([str(count_diverged(members))] * lost)) for members, labels in kinds]
    return lines, (*headings, *columns, "seeds", "seconds", *([DIVERGED] * lost))


def _numbers(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A figure that some runs do not have is not known: its mean would be of other seeds than the line tells."""
    found: list[str] = []
    for field in FIGURES.values():
        values = [row[field] for row in rows if row.get(field) is not None]
        found += mean_and_deviation(values if len(values) == len(rows) else [])
    return [*found, str(len(rows)), seconds_of(rows).replace("-", "")]

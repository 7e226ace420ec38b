"""What a metric is, and the record of a run that it is computed from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

Event = dict[str, Any]


class Record(list[Event]):
    """The measurements of a run in their order: its events "anytime", "task" and, where epochs are judged, "epoch"."""

    def of_kind(self, *kinds: str) -> list[Event]:
        return [event for event in self if event["event"] in kinds]

    @property
    def tasks(self) -> list[Event]:
        """The evaluation at the end of each task."""
        return self.of_kind("task")


class Metric(NamedTuple):
    """One figure that sums up a whole run; it stands in `summary.json`, ledger rows, tables and pages."""

    name: str  # the key in summaries and ledgers
    title: str  # what it measures, for headings and help
    meaning: str  # a sentence for the report page
    of: Callable[[Record], float | None]  # the figure of a finished run; None or nan where it was not measured
    unit: str = "%"  # "%": a share, shown times 100; "": a plain number
    better: str = "higher"  # or "lower"


FOUND: dict[str, Metric] = {}


def metric(title: str, unit: str = "%", better: str = "higher") -> Callable[[Callable], Callable]:
    """Make a function in a file of `metrics/summary` a metric, with the function's name and docstring."""

    def register(of: Callable[[Record], float | None]) -> Callable[[Record], float | None]:
        FOUND[of.__name__] = Metric(of.__name__, title, (of.__doc__ or "").partition("\n")[0], of, unit, better)
        return of

    return register


def mean(values: Iterable[float]) -> float:
    """The mean of the values that are not nan; nan without any."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan

"""What a metric is, and the record of a run that it is computed from."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

Event = dict[str, Any]


class Record:
    """The measurements of a run in their order: its events "anytime", "task" and, where judged, "epoch"."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.events = list(events)

    def of_kind(self, *kinds: str) -> list[Event]:
        return [event for event in self.events if event["event"] in kinds]

    @property
    def tasks(self) -> list[Event]:
        """The evaluation at the end of each task."""
        return self.of_kind("task")


class Metric(ABC):
    """One figure that sums up a whole run. A subclass in a file of `metrics/summary` is found by listing the folder.

    It then stands in `summary.json`, in ledger rows and in tables (`puridiver table --metric NAME`).
    """

    name: ClassVar[str]  # the key in summaries and ledgers
    title: ClassVar[str]  # what it measures, for headings and help
    unit: ClassVar[str] = "%"  # "%": a share, shown times 100; "": a plain number
    better: ClassVar[str] = "higher"  # or "lower"

    @abstractmethod
    def of(self, record: Record) -> float | None:
        """The figure of a finished run; None or nan where it was not measured."""


def mean(values: Iterable[float]) -> float:
    """The mean of the values that are not nan; nan without any."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan

"""Metrics: the only part of the package that sees true labels."""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["METRICS", "Event", "Metric", "Record", "metric"]

Event = dict[str, Any]


class Record(list[Event]):
    """The measurements of a run in their order: its events "anytime", "task" and, where epochs are judged, "epoch"."""

    def values(self, name: str, *kinds: str) -> np.ndarray:
        """One figure of all events of some kinds (default: of the tasks' ends), nan where it was not measured."""
        found = [event.get(name) for event in self if event["event"] in (kinds or ("task",))]
        return np.array(found, dtype=np.float64)


class Metric(NamedTuple):
    """One figure that sums up a whole run; it stands in `summary.json`, ledger rows, tables and pages."""

    name: str  # the key in summaries and ledgers
    title: str  # what it measures, for headings and help
    meaning: str  # a sentence for the report page
    of: Callable[[Record], float]  # the figure of a finished run; nan where it was not measured
    unit: str = "%"  # "%": a share, shown times 100; "": a plain number
    better: str = "higher"  # or "lower"


METRICS: dict[str, Metric] = {}


def metric(title: str, unit: str = "%", better: str = "higher") -> Callable[[Callable], Callable]:
    """Make a function in a file of `metrics/summary` a metric, with the function's name and docstring."""

    def register(of: Callable[[Record], Any]) -> Callable[[Record], Any]:
        meaning = (of.__doc__ or "").partition("\n")[0]
        METRICS[of.__name__] = Metric(of.__name__, title, meaning, of, unit, better)
        return of

    return register


_FOLDER = importlib.import_module(f"{__name__}.summary")
for _file in pkgutil.iter_modules(_FOLDER.__path__):  # they import what stands above
    importlib.import_module(f"{_FOLDER.__name__}.{_file.name}")
METRICS = dict(sorted(METRICS.items()))

"""Metrics: the only part of the package that sees true labels."""

import importlib
import pkgutil

from puridiver.metrics import summary
from puridiver.metrics.base import FOUND, Event, Metric, Record

__all__ = ["METRICS", "Event", "Metric", "Record"]

for _file in pkgutil.iter_modules(summary.__path__):
    importlib.import_module(f"{summary.__name__}.{_file.name}")
METRICS: dict[str, Metric] = dict(sorted(FOUND.items()))

"""Metrics: the only part of the package that sees true labels."""

from puridiver.discovery import members
from puridiver.metrics.base import Event, Metric, Record

__all__ = ["METRICS", "Event", "Metric", "Record"]

METRICS: dict[str, Metric] = {
    name: kind()
    for name, kind in members("puridiver.metrics.summary", Metric).items()  # type: ignore[type-abstract]
}

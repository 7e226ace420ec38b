"""Metrics: the only part of the package that sees true labels."""

from puridiver.discovery import members
from puridiver.metrics.base import Event, Metric, Record

__all__ = ["METRICS", "Event", "Metric", "Record"]

METRICS: dict[str, Metric] = {
    name: kind()
    for name, kind in members("puridiver.metrics.summary", Metric).items()  # type: ignore[type-abstract]
}


def __getattr__(name: str) -> object:  # old names, until nobody uses them
    if name not in ("SampleHistory", "check_trace_file", "Recorder"):
        raise AttributeError(name)
    from importlib import import_module

    return getattr(import_module(f"puridiver.metrics.{'recorder' if name == 'Recorder' else 'history'}"), name)

"""The figures of a run that tables may show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Metric(NamedTuple):
    """A figure of a row, what it is called in words and, for programs, in a CSV; and what to multiply it by."""

    field: str
    words: str
    heading: str
    scale: float = 100.0


METRICS: Mapping[str, Metric] = {
    "last": Metric("last_accuracy", "last accuracy %", "last accuracy %"),
    "average": Metric("average_accuracy", "average accuracy %, over the ends of the tasks", "average accuracy %"),
    "average-seen": Metric(
        "average_seen_accuracy",
        "average accuracy %, over the ends of the tasks, on classes that have come by then",
        "average accuracy on seen classes %",
    ),
    "anytime": Metric("anytime_area", "anytime accuracy %, over the whole stream", "anytime accuracy %"),
    "anytime-seen": Metric(
        "anytime_seen_area",
        "anytime accuracy %, over the whole stream, on classes that have come by then",
        "anytime accuracy on seen classes %",
    ),
    "forgetting": Metric("forgetting", "forgetting, points", "forgetting"),
    "bwt": Metric("backward_transfer", "backward transfer (BWT), points", "backward transfer (BWT)"),
    "purity": Metric("memory_purity", "memory purity %", "memory purity %"),
    "diversity": Metric("memory_diversity", "memory diversity", "memory diversity", 1.0),
}

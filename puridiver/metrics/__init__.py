"""Metrics: the only part of the package that sees true labels."""

from puridiver.metrics.accuracy import (
    accuracy,
    anytime_area,
    backward_transfer,
    class_accuracies,
    confusion_matrix,
    forgetting,
    group_accuracies,
)
from puridiver.metrics.history import SampleHistory, check_trace_file
from puridiver.metrics.joint import joint_features
from puridiver.metrics.memory import memory_metrics, split_metrics
from puridiver.metrics.memory_watch import MemoryWatch
from puridiver.metrics.recorder import Recorder
from puridiver.metrics.stopwatch import Stopwatch

__all__ = [
    "MemoryWatch",
    "Recorder",
    "SampleHistory",
    "Stopwatch",
    "accuracy",
    "anytime_area",
    "backward_transfer",
    "check_trace_file",
    "class_accuracies",
    "confusion_matrix",
    "forgetting",
    "group_accuracies",
    "joint_features",
    "memory_metrics",
    "split_metrics",
]

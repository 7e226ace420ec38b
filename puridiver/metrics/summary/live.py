"""Accuracy on the stream itself."""

from __future__ import annotations

from puridiver.metrics import Record, metric


@metric("live accuracy")
def live_accuracy(record: Record) -> float:
    """The share of stream samples whose true label was predicted before the sample was learnt (prequential)."""
    return record.values("live_accuracy")[-1]

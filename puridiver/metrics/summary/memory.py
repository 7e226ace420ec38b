"""How clean and how diverse the memory is at the end."""

from __future__ import annotations

from puridiver.metrics.base import Record, metric


@metric("memory purity")
def memory_purity(record: Record) -> float | None:
    """The share of memory samples with the right label (Eq. 12), of those whose true label is known."""
    return record.tasks[-1]["memory_purity"]


@metric("memory diversity", unit="")
def memory_diversity(record: Record) -> float | None:
    """The mean distance of joint features within a class (Eq. 12)."""
    return record.tasks[-1].get("memory_diversity")

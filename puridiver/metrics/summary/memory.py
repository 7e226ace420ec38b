"""How clean and how diverse the memory is at the end."""

from __future__ import annotations

from puridiver.metrics.base import Metric, Record


class MemoryPurity(Metric):
    """The share of memory samples with the right label (Eq. 12), of those whose true label is known."""

    name, title = "memory_purity", "memory purity"

    def of(self, record: Record) -> float | None:
        return record.tasks[-1]["memory_purity"]


class MemoryDiversity(Metric):
    """The mean distance of joint features within a class (Eq. 12)."""

    name, title, unit = "memory_diversity", "memory diversity", ""

    def of(self, record: Record) -> float | None:
        return record.tasks[-1].get("memory_diversity")

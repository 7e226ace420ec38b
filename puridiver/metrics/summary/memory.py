"""How clean and how diverse the memory is at the end."""

from puridiver.metrics import Record, metric


@metric("memory purity")
def memory_purity(record: Record) -> float:
    """The share of memory samples with the right label (Eq. 12), of those whose true label is known."""
    return record.values("memory_purity")[-1]


@metric("memory diversity", unit="")
def memory_diversity(record: Record) -> float:
    """The mean distance of joint features within a class (Eq. 12)."""
    return record.values("memory_diversity")[-1]

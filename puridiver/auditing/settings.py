"""What decides an audit."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

LEAST = {"passes": 1, "parts": 1, "memory": 1, "batch": 1, "neighbours": 1, "seed": 0, "epochs": 1}
# All three end at the low of a warm restart; the least is 240 batches of 16.
FEWER_EPOCHS, MOST_EPOCHS, LEAST_SEEN = (15, 31), 63, 3_840


@dataclass(frozen=True)
class AuditSettings:
    """How a labelled set is audited.

    Parameters
    ----------
    passes
        Learners that each see the whole set once, in an order of their own, and then judge it.
    parts
        Each learner trains on its memory after so many equal parts of the set.
    memory
        Samples a learner's memory holds; None: a fifth of the set, from 50 to 2,000.
    batch
        Samples a learner observes at once.
    neighbours
        Nearest images, by a learner's features, whose labels vote on each sample.
    seed
        Fixes the orders and every random choice of the learners.
    epochs
        Memory epochs after each part; None: 15, with a memory below 256 samples 31, below 124 63.
    network
        "auto" (on a CPU the small one, on a GPU by image size), "small", "resnet18", "resnet32" or "resnet34".
    device, options
        As for `puridiver.Learner`; options replace those of the recipe `official`.
    """

    passes: int = 2
    parts: int = 2
    memory: int | None = None
    batch: int = 64
    neighbours: int = 50
    seed: int = 0
    epochs: int | None = None
    network: str = "auto"
    device: str = "auto"
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < least):
                raise ValueError(f"{name} should be a whole number, at least {least}, but got {value!r}")

    def memory_for(self, n_samples: int) -> int:
        return self.memory or min(max(n_samples // 5, 50), 2_000)

    def epochs_for(self, memory: int) -> int:
        """Memory epochs after each part: a small memory has few batches, and in 15 epochs of them little is learnt."""
        return self.epochs or next((epochs for epochs in FEWER_EPOCHS if epochs * memory >= LEAST_SEEN), MOST_EPOCHS)

    def work(self, n_samples: int) -> int:
        """What an audit's progress advances by in all: stream samples, and memory samples times epochs."""
        memory = self.memory_for(n_samples)
        return self.passes * (n_samples + min(self.parts, n_samples) * self.epochs_for(memory) * memory)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

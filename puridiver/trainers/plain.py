"""Plain cross-entropy on the given labels."""

from __future__ import annotations

from puridiver.memory import Samples
from puridiver.trainers.base import Trainer


class Plain(Trainer):
    """Believes every label. With a sampler alone this is the paper's baseline of that sampler."""

    name = "plain"
    title = "cross-entropy"
    summary = "cross-entropy on the given labels"

    def memory_epoch(self, memory: Samples, epoch: int) -> None:
        self.plain_epoch(memory)

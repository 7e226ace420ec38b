"""Memory samples that join the batches of the stream, made ready for many batches at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch
from torch import Tensor

from puridiver.memory import Memory, Samples
from puridiver.options import Options
from puridiver.trainers import Trainer

# Replayed samples are drawn and augmented for this many stream batches at once: launching the augmentation costs a
# GPU's host far more than the few images do. So a sample may be replayed up to 15 batches after it was evicted.
REPLAY_AHEAD = 16


class Replay:
    """A stock of replayed samples, a part for each stream batch to come."""

    def __init__(self, options: Options, memory: Memory, generator: torch.Generator) -> None:
        self.options, self.memory, self.generator = options, memory, generator
        self._stock: list[Samples] = []

    def next(self, trainer: Trainer, consolidated: bool, alone: bool = False) -> Samples | None:
        """Memory samples that join a stream batch (row 12), or None; `consolidated`: whether the memory ever was.

        A batch of one (`alone`) needs them, since a network with BatchNorm learns nothing from it: memory samples
        join it as soon as there are any, unless the recipe never replays.
        """
        held, mode = self.memory.samples, self.options.replay
        wanted = mode == "always" or (mode == "after_first_consolidation" and (consolidated or alone))
        if not wanted or not len(held.labels) or not trainer.learns_online:
            return None
        if not self._stock:
            # Batches of distinct memory samples with their strong views, all augmented in one pass.
            n, n_batches = len(held.labels), REPLAY_AHEAD if self.memory.full else 1
            size, drawn = min(self.options.replay_size or self.options.batch_size, n), list[Tensor]()
            for _ in range(n_batches):
                drawn.append(torch.randperm(n, generator=self.generator)[:size])
            picked = held.take(trainer.runtime.move(torch.cat(drawn)))
            self._stock = dataclasses.replace(picked, images=trainer.strong_view(picked.images)).split(size)
        return self._stock.pop()

    def drop(self) -> None:
        """Empty the stock: the memory or its labels have changed since it was drawn."""
        self._stock = []

    def state(self) -> dict[str, Tensor]:
        parts = enumerate(self._stock)
        return {f"{number}.{name}": value for number, part in parts for name, value in part.tensors().items()}

    def load_state(self, parts: Mapping[int, Samples]) -> None:
        self._stock = [parts[number] for number in sorted(parts)]

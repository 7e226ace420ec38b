"""Memory samples that join the batches of the stream, made ready for many batches at once."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from puridiver.memory import Memory
from puridiver.memory.samples import Samples
from puridiver.options import Options
from puridiver.runtime.device import Runtime
from puridiver.trainers import Trainer

# Replayed samples are drawn and augmented for this many stream batches at once: launching the augmentation costs a
# GPU's host far more than the few images do. A sample may so be replayed up to 15 batches after it was dropped.
REPLAY_AHEAD = 16


class Replay:
    """A stock of replayed samples, a part for each stream batch to come."""

    def __init__(self, options: Options, memory: Memory, generator: torch.Generator, runtime: Runtime) -> None:
        self.options, self.memory, self.generator, self.runtime = options, memory, generator, runtime
        self._stock: list[Samples] = []

    def next(self, trainer: Trainer, consolidated: bool, alone: bool = False) -> Samples | None:
        """Memory samples that join a stream batch (row 12), or None; `consolidated`: whether the memory ever was.

        A batch of one cannot do without, since a network with BatchNorm learns nothing from it alone: as soon as there
        are memory samples they join it, unless the recipe never replays.
        """
        begun = consolidated or alone
        wanted = {"never": False, "after_first_consolidation": begun, "always": True}[self.options.replay]
        if not wanted or not len(self.memory) or not trainer.learns_online:
            return None
        if not self._stock:
            self._stock = self._draw(trainer, REPLAY_AHEAD if self.memory.full else 1)
        return self._stock.pop()

    def drop(self) -> None:
        """Forget the stock: the memory or its labels are no more what they were when it was drawn."""
        self._stock = []

    def _draw(self, trainer: Trainer, n_batches: int) -> list[Samples]:
        """Batches of distinct memory samples with their strong views, all augmented in one pass."""
        size = min(self.options.batch_size, len(self.memory))
        drawn = [torch.randperm(len(self.memory), generator=self.generator)[:size] for _ in range(n_batches)]
        picked = self.memory.samples.take(self.runtime.move(torch.cat(drawn)))
        views = dataclasses.replace(picked, images=trainer.strong_view(picked.images))
        return views.split(size)

    def state(self) -> dict[str, Tensor]:
        parts = enumerate(self._stock)
        return {f"{number}.{name}": value for number, part in parts for name, value in part.tensors().items()}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        parts: dict[str, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            number, _, name = key.partition(".")
            parts.setdefault(number, {})[name] = self.runtime.move(value)
        self._stock = [Samples(**parts[number]) for number in sorted(parts, key=int)]

"""The episodic memory: what the sampler keeps, and the arrivals that wait for its choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from puridiver.memory.base import Moment, Sampler, Samples, row_faults
from puridiver.runtime.device import Runtime

# Replayed samples are drawn and augmented for this many stream batches at once: launching the augmentation costs a
# GPU's host far more than the few images do. So a sample may be replayed up to 15 batches after it was evicted.
REPLAY_AHEAD = 16
OnCandidates = Callable[[Samples, int], None]  # gets a pool, and how many of it are the memory's, before a choice


class Counts(NamedTuple):
    """Held samples of each class id, and those of them whose label a person has checked."""

    held: Counter[int]
    checked: Counter[int]


class Memory:
    """At most `capacity` samples on the run's device, chosen by a sampler; up to `delay` more wait for its choice."""

    def __init__(self, sampler: Sampler, places: int, image_shape: tuple[int, int, int], runtime: Runtime) -> None:
        height, width, channels = image_shape
        self.sampler, self._runtime = sampler, runtime
        self.capacity = max(1, int(places * (1 - sampler.delay_share)))
        self.delay = places - self.capacity
        images = torch.empty(0, channels, height, width, dtype=torch.uint8, device=runtime.device)
        numbers = torch.empty(0, dtype=torch.int64, device=runtime.device)
        self._empty = self.samples = self.waiting = Samples(images, numbers, numbers, numbers.float(), numbers)
        self.replay_stock: list[Samples] = []  # a part for each stream batch to come
        # The package's own samplers are tested, and a GPU would have to wait for the answer.
        self._checks_choices = not type(sampler).__module__.startswith("puridiver.")
        self._counted: tuple[Samples, Samples, Counts] | None = None  # what was counted last, and the result

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def full(self) -> bool:
        return len(self.samples) == self.capacity

    def update(self, batch: Samples, moment: Moment, on_candidates: OnCandidates) -> None:
        """Let the sampler choose from the memory and a batch that has arrived, or from every full delay buffer."""
        noted = replace(batch, notes=self._runtime.move(self.sampler.note_arrivals(batch, moment)))
        if not self.delay:
            self._choose(noted, moment, on_candidates)
            return
        for part in self.waiting.joined(noted).split(self.delay):
            self.waiting = part
            if len(part) == self.delay:
                self.choose_waiting(moment, on_candidates)

    def choose_waiting(self, moment: Moment, on_candidates: OnCandidates) -> None:
        """Let the sampler choose from the memory and the arrivals that wait."""
        first = int(self.waiting.arrivals[0])
        self._choose(self.waiting, replace(moment, seen_before=first), on_candidates)
        self.waiting = self._empty

    def _choose(self, arrived: Samples, moment: Moment, on_candidates: OnCandidates) -> None:
        pool, n_old = self.samples.joined(arrived), len(self.samples)
        on_candidates(pool, n_old)
        rows = self.sampler.choose(pool, n_old, self.capacity, moment)
        if self._checks_choices:
            for fault in row_faults(rows, len(pool), self.capacity):
                raise ValueError(f"sampler {self.sampler.name}: {fault}")
        self.samples = pool.take(self._runtime.move(rows))

    def replay(self, size: int, view: Callable[[Tensor], Tensor], generator: torch.Generator) -> Samples:
        """Augmented views of up to `size` distinct samples, to join a stream batch."""
        if not self.replay_stock:
            n, drawn = len(self.samples), list[Tensor]()
            for _ in range(REPLAY_AHEAD if self.full else 1):
                drawn.append(torch.randperm(n, generator=generator)[:size])
            picked = self.samples.take(self._runtime.move(torch.cat(drawn)))
            self.replay_stock = replace(picked, images=view(picked.images)).split(min(size, n))
        return self.replay_stock.pop()

    def arrivals(self) -> list[int]:
        """The arrivals of all samples that are held."""
        return torch.cat([self.samples.arrivals, self.waiting.arrivals]).tolist()

    def correct(self, labels: Mapping[int, int]) -> int:
        """Give held samples the class ids that a person found, by arrival; how many were held."""
        self.replay_stock = []  # drawn with the old labels
        return sum(self._correct(name, labels) for name in ("samples", "waiting"))

    def _correct(self, name: str, labels: Mapping[int, int]) -> int:
        old: Samples = getattr(self, name)
        found = old.labels.new_tensor([labels.get(arrival, -1) for arrival in old.arrivals.tolist()])
        told = found >= 0
        came_with = torch.where(told & ~old.checked, old.labels, old.came_with)
        setattr(self, name, replace(old, labels=torch.where(told, found, old.labels), came_with=came_with))
        return int(told.sum())

    def uncheck(self, arrivals: Iterable[int]) -> int:
        """Give checked samples the labels back that they came with; how many were held and checked."""
        self.replay_stock = []
        wanted = self.samples.arrivals.new_tensor(list(arrivals))
        return sum(self._uncheck(name, wanted) for name in ("samples", "waiting"))

    def _uncheck(self, name: str, arrivals: Tensor) -> int:
        old: Samples = getattr(self, name)
        undone = old.checked & torch.isin(old.arrivals, arrivals)
        labels, came_with = torch.where(undone, old.came_with, old.labels), old.came_with.masked_fill(undone, -1)
        setattr(self, name, replace(old, labels=labels, came_with=came_with))
        return int(undone.sum())

    def counts(self) -> Counts:
        """Counts of all that is held. Nobody waits for the device where nothing has changed since the last call."""
        samples, waiting = self.samples, self.waiting
        if self._counted is None or self._counted[0] is not samples or self._counted[1] is not waiting:
            labels = torch.cat([samples.labels, waiting.labels]).cpu()
            checked = torch.cat([samples.checked, waiting.checked]).cpu()
            counts = Counts(Counter(labels.tolist()), Counter(labels[checked].tolist()))
            self._counted = samples, waiting, counts
        return self._counted[2]

    def load_state(self, samples: Samples, waiting: Samples) -> None:
        for part, most in ((samples, self.capacity), (waiting, self.delay)):
            if len(part) > most:
                raise ValueError(f"the memory holds at most {most} samples, but got {len(part)}")
        self.samples, self.waiting = samples, waiting

"""The memory, the arrivals that wait for it, and the sampler that decides what becomes of them."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from puridiver.memory.base import Moment, Sampler, row_faults
from puridiver.memory.memory import Memory
from puridiver.memory.samples import Samples, joined

Meet = Callable[[Samples, int], None]  # told of a pool, and how many of it are the memory's, before a choice


@dataclass(frozen=True)
class Counts:
    """Samples of each class, by class id: those that are held, and those of them whose label a person has checked."""

    held: Counter[int]
    checked: Counter[int]


class Keeper:
    """Lets a sampler choose: at once, or whenever as many arrivals wait as it wants to see together."""

    def __init__(
        self, sampler: Sampler, capacity: int, image_shape: tuple[int, int, int], device: torch.device
    ) -> None:
        delay = sampler.delay(capacity)
        self.sampler = sampler
        # The package's own are tested, and a GPU would have to wait for the answer.
        self._checks = not type(sampler).__module__.startswith("puridiver.")
        self.memory = Memory(capacity - delay, image_shape, device)
        self.delayed = Memory(delay, image_shape, device)  # arrivals that wait to be chosen from
        self._counted: tuple[list[Tensor], Counts] | None = None  # the labels, and what they gave

    @property
    def capacity(self) -> int:
        """How many samples are held at most, those that wait included."""
        return self.memory.capacity + self.delayed.capacity

    def arrivals(self) -> list[int]:
        """Of all samples that are held: the memory's, then those that wait."""
        return [*self.memory.samples.arrivals.tolist(), *self.delayed.samples.arrivals.tolist()]

    def labels(self, checked: bool = False) -> dict[int, int]:
        """Class ids by arrival of all samples that are held, or of those whose labels a person has checked."""
        found: dict[int, int] = {}
        for samples in (self.memory.samples, self.delayed.samples):
            rows = samples.checked if checked else slice(None)
            found |= zip(samples.arrivals[rows].tolist(), samples.labels[rows].tolist(), strict=True)
        return found

    def relabel(self, labels: Mapping[int, int], checked: bool) -> int:
        """Give samples labels, by their arrival, and say if a person has checked those; how many of them are held."""
        return self.memory.relabel(labels, checked) + self.delayed.relabel(labels, checked)

    def counts(self) -> Counts:
        """Of all that is held. Of labels that were counted already nobody has to wait for the device."""
        held = [self.memory.samples, self.delayed.samples]
        tensors = [tensor for samples in held for tensor in (samples.labels, samples.checked)]
        known = self._counted
        if known is not None and all(map(operator.is_, known[0], tensors)):
            return known[1]
        labels, checked = (torch.cat(pair).cpu() for pair in (tensors[::2], tensors[1::2]))
        found = Counts(Counter(labels.tolist()), Counter(labels[checked].tolist()))
        self._counted = tensors, found
        return found

    def take(self, batch: Samples, moment: Moment, meet: Meet) -> None:
        """A batch has arrived."""
        noted = replace(batch, notes=moment.runtime.move(self.sampler.note_arrivals(batch, moment)))
        if not self.delayed.capacity:
            self._choose_among(noted, moment, meet)
            return
        waiting = joined(self.delayed.samples, noted)
        first = moment.seen_before - len(self.delayed)
        self.delayed.clear()
        for part in waiting.split(self.delayed.capacity):
            if len(part) < self.delayed.capacity:
                self.delayed.replace(part)
            else:
                self._choose_among(part, replace(moment, seen_before=first), meet)
            first += len(part)

    def take_waiting(self, moment: Moment, meet: Meet) -> None:
        """Choose among the arrivals that wait, though they are fewer than the sampler wants to see."""
        first = moment.seen_before - len(self.delayed)
        self._choose_among(self.delayed.samples, replace(moment, seen_before=first), meet)
        self.delayed.clear()

    def _choose_among(self, arrived: Samples, moment: Moment, meet: Meet) -> None:
        pool = joined(self.memory.samples, arrived)
        meet(pool, len(self.memory))
        rows = self.sampler.choose(pool, len(self.memory), self.memory.capacity, moment)
        if self._checks:
            for fault in row_faults(rows, len(pool), self.memory.capacity):
                raise ValueError(f"sampler {self.sampler.name}: {fault}")
        self.memory.replace(pool.take(moment.runtime.move(rows)))

    def state(self) -> dict[str, Tensor]:
        tensors = {f"memory.{name}": value for name, value in self.memory.state().items()}
        if len(self.delayed):
            tensors |= {f"delayed.{name}": value for name, value in self.delayed.state().items()}
        return tensors

    def load_state(self, memory: dict[str, Tensor], delayed: dict[str, Tensor]) -> None:
        """Go back to a `state`; nothing is `delayed` where nothing waited."""
        self.memory.load_state(memory)
        if delayed:
            self.delayed.load_state(delayed)
        else:
            self.delayed.clear()

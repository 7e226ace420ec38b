"""The episodic memory: what the sampler keeps, and the arrivals that wait for its choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from puridiver.memory.base import Moment, Sampler, Samples, row_faults

OnCandidates = Callable[[Samples, int], None]  # gets a pool, and how many of it are the memory's, before a choice


class Counts(NamedTuple):
    """Samples of each class, by class id: those that are held, and those of them whose label a person has checked."""

    held: Counter[int]
    checked: Counter[int]


class Memory:
    """At most `capacity` samples on the run's device, chosen by a sampler; up to `delay` more wait for its choice."""

    def __init__(self, sampler: Sampler, places: int, image_shape: tuple[int, int, int], device: torch.device) -> None:
        height, width, channels = image_shape
        self.sampler = sampler
        self.capacity = max(1, int(places * (1 - sampler.delay_share)))
        self.delay = places - self.capacity
        images, numbers = torch.empty(0, channels, height, width, dtype=torch.uint8), torch.empty(0, dtype=torch.int64)
        empty = (tensor.to(device) for tensor in (images, numbers, numbers, torch.empty(0)))
        self._empty = self.samples = self.waiting = Samples(*empty)
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
        noted = replace(batch, notes=moment.runtime.move(self.sampler.note_arrivals(batch, moment)))
        if not self.delay:
            self._choose(noted, moment, on_candidates)
            return
        first = moment.seen_before - len(self.waiting)
        for part in self.waiting.joined(noted).split(self.delay):
            self.waiting = part
            if len(part) == self.delay:
                self._choose(part, replace(moment, seen_before=first), on_candidates)
                self.waiting = self._empty
            first += len(part)

    def choose_early(self, moment: Moment, on_candidates: OnCandidates) -> None:
        """Let the sampler choose from the arrivals that wait, though the delay buffer is not full."""
        first = moment.seen_before - len(self.waiting)
        self._choose(self.waiting, replace(moment, seen_before=first), on_candidates)
        self.waiting = self._empty

    def _choose(self, arrived: Samples, moment: Moment, on_candidates: OnCandidates) -> None:
        pool, n_old = self.samples.joined(arrived), len(self.samples)
        on_candidates(pool, n_old)
        rows = self.sampler.choose(pool, n_old, self.capacity, moment)
        if self._checks_choices:
            for fault in row_faults(rows, len(pool), self.capacity):
                raise ValueError(f"sampler {self.sampler.name}: {fault}")
        self.samples = pool.take(moment.runtime.move(rows))

    def labels(self, checked: bool = False) -> dict[int, int]:
        """Class ids by arrival of all samples that are held, or of those whose labels a person has checked."""
        found: dict[int, int] = {}
        for samples in (self.samples, self.waiting):
            rows = samples.checked if checked else slice(None)
            found |= zip(samples.arrivals[rows].tolist(), samples.labels[rows].tolist(), strict=True)
        return found

    def relabel(self, labels: Mapping[int, int], checked: bool) -> int:
        """Give held samples these class ids, by arrival, and set whether a person has checked them; how many were."""
        changed = 0
        for name in ("samples", "waiting"):
            old: Samples = getattr(self, name)
            new = torch.tensor([labels.get(arrival, -1) for arrival in old.arrivals.tolist()], dtype=torch.int64)
            given = new.to(old.labels.device)
            marks = old.checked | (given >= 0) if checked else old.checked & (given < 0)
            setattr(self, name, replace(old, labels=torch.where(given >= 0, given, old.labels), checked=marks))
            changed += int((new >= 0).sum())
        return changed

    def counts(self) -> Counts:
        """Counts of all that is held. Nobody waits for the device where nothing has changed since the last call."""
        known = self._counted
        if known is not None and known[0] is self.samples and known[1] is self.waiting:
            return known[2]
        samples, waiting = self.samples, self.waiting
        labels = torch.cat([samples.labels, waiting.labels]).cpu()
        checked = torch.cat([samples.checked, waiting.checked]).cpu()
        found = Counts(Counter(labels.tolist()), Counter(labels[checked].tolist()))
        self._counted = samples, waiting, found
        return found

    def state(self) -> dict[str, Tensor]:
        tensors = {f"memory.{name}": value for name, value in self.samples.tensors().items()}
        if len(self.waiting):
            tensors |= {f"waiting.{name}": value for name, value in self.waiting.tensors().items()}
        return tensors

    def load_state(self, samples: Samples, waiting: Samples | None) -> None:
        """Go back to a `state`; nothing waits where there is no `waiting`."""
        for part, most in ((samples, self.capacity), (waiting or self._empty, self.delay)):
            if len(part) > most:
                raise ValueError(f"the memory holds at most {most} samples, but got {len(part)}")
        self.samples, self.waiting = samples, waiting or self._empty

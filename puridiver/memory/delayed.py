"""A memory with a delay buffer, in which arrivals wait until a sampler judges them together (SPR, CNLL, PuriDivER)."""

from collections import Counter
from dataclasses import replace

import torch
from torch import Tensor

from puridiver.memory.base import Memory, Moment, OnCandidates, Sampler, Samples
from puridiver.runtime.device import Runtime


class DelayedMemory(Memory):
    """Half of the places are a delay buffer: arrivals wait there until it is full, and then the sampler chooses."""

    parts = ("samples", "waiting")

    def __init__(self, sampler: Sampler, places: int, input_shape: tuple[int, ...], runtime: Runtime) -> None:
        super().__init__(sampler, max(1, places // 2), input_shape, runtime)
        self.delay, self.waiting = max(1, places - self.capacity), self.samples

    @property
    def trained_on(self) -> Samples:
        """Before the first choice, what waits."""
        return self.samples if len(self.samples) else self.waiting

    def update(self, batch: Samples, moment: Moment, on_candidates: OnCandidates) -> None:
        self._judge(self.waiting.joined(batch), moment, on_candidates)

    def resize(self, places: int, moment: Moment | None = None, on_candidates: OnCandidates | None = None) -> None:
        super().resize(max(1, places // 2), moment, on_candidates)
        self.delay = max(1, places - self.capacity)
        if moment is not None and on_candidates is not None:
            self._judge(self.waiting, moment, on_candidates)

    def _judge(self, waiting: Samples, moment: Moment, on_candidates: OnCandidates) -> None:
        """Let the sampler choose from each full delay buffer; the rest waits."""
        for part in waiting.split(self.delay):
            self.waiting = part
            if len(part) == self.delay:
                super().update(part, replace(moment, seen_before=int(part.arrivals[0])), on_candidates)
                self.waiting = part.take(slice(0))


class PatientMemory(Memory):
    """Once the memory is full, up to `options.delay` of its places are for arrivals that wait to be judged together.

    Judging costs a pass over the whole memory, however few have arrived.
    """

    parts = ("samples", "waiting")

    def __init__(self, sampler: Sampler, places: int, input_shape: tuple[int, ...], runtime: Runtime) -> None:
        self.delay = patience(sampler, places)
        super().__init__(sampler, places - self.delay, input_shape, runtime)
        self.waiting = self.samples

    @property
    def trained_on(self) -> Samples:
        return self.held() if self.delay else self.samples

    def update(self, batch: Samples, moment: Moment, on_candidates: OnCandidates) -> None:
        noted = self._noted(batch, moment)
        if self.delay:
            self._judge_or_wait(noted, moment, on_candidates)
        else:
            self._choose(noted, moment, on_candidates)

    def _judge_or_wait(self, batch: Samples, moment: Moment, on_candidates: OnCandidates) -> None:
        earlier, self.waiting = self.waiting, self.waiting.joined(batch)
        if len(self.samples) + len(self.waiting) <= self.capacity or len(self.waiting) >= max(1, self.delay):
            before = Counter(moment.seen_of)
            before.subtract(earlier.labels.tolist())
            then = replace(moment, seen_before=moment.seen_before - len(earlier), seen_of=before)
            self._choose(self.waiting, then, on_candidates)
            self.waiting = self.waiting.take(slice(0))

    def resize(self, places: int, moment: Moment | None = None, on_candidates: OnCandidates | None = None) -> None:
        self.delay = patience(self.sampler, places)
        super().resize(places - self.delay, moment, on_candidates)
        if moment is not None and on_candidates is not None and len(self.waiting):
            self._judge_or_wait(self.waiting.take(slice(0)), moment, on_candidates)


def patience(sampler: Sampler, places: int) -> int:
    """How many places of a `PatientMemory` are for waiting."""
    return min(sampler.options.delay, places // 4)


def level_rows(labels: Tensor, candidates: Tensor, capacity: int, generator: torch.Generator) -> Tensor:
    """At most `capacity` of the candidates' rows, in order: random ones, as many of each class as can be."""
    lottery = torch.rand(len(labels), generator=generator).masked_fill(~candidates, 2)
    order = lottery.argsort()
    order = order[labels[order].argsort(stable=True)]  # by class, candidates before others, then by lot
    counts = labels.bincount()
    starts = counts.cumsum(0) - counts
    turn = torch.empty_like(lottery)  # the sample is the turn-th of its class
    turn[order] = (torch.arange(len(labels)) - starts[labels[order]]).float()
    turn = turn + lottery / 2  # who of those with the same turn comes first
    turn[~candidates] = torch.inf
    n = min(capacity, int(candidates.sum()))
    return turn.argsort()[:n].sort().values

"""CRSV: the released program's rule for GBS, a sample at a time, and that it forgets no part of the stream."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from scipy.stats import chisquare

from puridiver.memory.balanced import ClassReservoir
from puridiver.options import Options
from tests.memory.fakes import pass_stream, stream, with_labels


class NaiveLoop:
    """The rule as its description has it, with the same draws: a table of held (label, arrival), a sample at a time."""

    def __init__(self, capacity: int, seed: int) -> None:
        self.capacity, self.generator = capacity, torch.Generator().manual_seed(seed)
        self.held: list[tuple[int, int]] = []
        self.seen: list[int] = []

    def draw(self, n: int) -> int:
        return int(torch.randint(n, (), generator=self.generator))

    def take(self, label: int, arrival: int) -> None:
        self.seen.append(label)
        if len(self.held) < self.capacity:
            self.held.append((label, arrival))
            return
        candidates = [*self.held, (label, arrival)]
        counts = Counter(each for each, _ in candidates)
        if float(torch.rand((), generator=self.generator)) >= counts[label] / self.seen.count(label):
            return
        largest = sorted(each for each in counts if counts[each] == max(counts.values()))
        losing = label if label in largest else largest[self.draw(len(largest))]
        of_losing = [sample for sample in candidates if sample[0] == losing]
        candidates.remove(of_losing[self.draw(len(of_losing))])
        self.held = candidates


@pytest.mark.parametrize(("seed", "capacity", "n_classes"), [(0, 1, 3), (1, 10, 3), (2, 7, 4), (3, 12, 12)])
def test_it_is_the_loop_a_sample_at_a_time(seed: int, capacity: int, n_classes: int) -> None:
    everything, loop = stream(120, n_classes, seed), NaiveLoop(capacity, seed)
    for label, arrival in zip(everything.labels.tolist(), everything.arrivals.tolist(), strict=True):
        loop.take(label, arrival)
    memory = pass_stream(ClassReservoir(Options()), everything, capacity, 1, seed)
    assert sorted(memory.samples.arrivals.tolist()) == sorted(arrival for _, arrival in loop.held)


@pytest.mark.parametrize("batch_size", [3, 16])
def test_batches_decide_nothing(batch_size: int) -> None:
    one, many = (
        pass_stream(ClassReservoir(Options()), stream(96, 4, 1), 9, size).samples.arrivals for size in (1, batch_size)
    )
    assert torch.equal(one, many)


def test_every_part_of_a_class_is_held_alike() -> None:
    # GDumb's rule would hold the first ones alone.
    parts: Counter[int] = Counter()
    for seed in range(60):
        arrivals = pass_stream(ClassReservoir(Options()), with_labels([0, 1] * 40), 8, 16, seed).samples.arrivals
        parts.update((arrivals // 20).tolist())
    assert chisquare([parts[i] for i in range(4)]).pvalue > 1e-3

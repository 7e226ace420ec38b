"""GBS and CRSV: GDumb's rule, and the released program's, a sample at a time."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from puridiver.memory import Memory
from puridiver.memory.balanced import ClassReservoir, GreedyBalanced
from puridiver.options import Options
from tests.memory.fakes import FixedNetwork, empty_memory, moment, pass_batch, pass_stream, stream


def held(memory: Memory) -> Counter[int]:
    return Counter(memory.samples.labels.tolist())


@pytest.mark.parametrize(("capacity", "n_classes"), [(12, 3), (10, 3), (7, 4), (5, 5)])
@pytest.mark.parametrize("batch_size", [1, 16])
def test_plentiful_classes_are_balanced_within_one(capacity: int, n_classes: int, batch_size: int) -> None:
    counts = held(pass_stream(GreedyBalanced(Options()), stream(150, n_classes), capacity, batch_size))
    assert sum(counts.values()) == capacity
    assert max(counts.values()) - min(counts[c] for c in range(n_classes)) <= 1


@pytest.mark.parametrize(("seed", "capacity"), [(0, 3), (1, 10)])
def test_each_sample_is_treated_by_gdumbs_rule_unless_classes_would_take_turns(seed: int, capacity: int) -> None:
    everything, memory = stream(60, 5, seed), empty_memory(GreedyBalanced(Options()), capacity)
    generator, network = torch.Generator().manual_seed(seed), FixedNetwork(5)
    seen_classes: set[int] = set()
    for i in range(60):
        before, label = memory.samples.arrivals.tolist(), int(everything.labels[i])
        counts = held(memory)
        pass_batch(memory, everything.take(torch.tensor([i])), moment(network, 5, i, generator))
        after = memory.samples.arrivals.tolist()
        wanted = label not in seen_classes or counts[label] < capacity / len(seen_classes)
        if len(before) == capacity and counts[label]:
            wanted &= counts[label] + 1 < max(counts.values())
        assert (i in after) == wanted
        lost = set(before) - set(after)
        assert len(lost) == (1 if wanted and len(before) == capacity else 0)
        assert all(counts[int(everything.labels[j])] == max(counts.values()) for j in lost)
        seen_classes.add(label)


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

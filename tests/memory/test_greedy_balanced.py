"""GBS: GDumb's rule, a sample at a time."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from scipy.stats import chisquare

from puridiver.memory import Memory
from puridiver.memory.balanced import GreedyBalanced
from puridiver.options import Options
from tests.memory.fakes import FixedNetwork, empty_memory, moment, pass_batch, pass_stream, stream, with_labels


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
        batch = everything.take(torch.tensor([i]))
        pass_batch(memory, batch, moment(network, 5, i, generator))
        after = memory.samples.arrivals.tolist()
        wanted = label not in seen_classes or counts[label] < capacity / len(seen_classes)
        if len(before) == capacity and counts[label]:
            wanted &= counts[label] + 1 < max(counts.values())
        assert (i in after) == wanted
        lost = set(before) - set(after)
        assert len(lost) == (1 if wanted and len(before) == capacity else 0)
        assert all(counts[int(everything.labels[j])] == max(counts.values()) for j in lost)
        seen_classes.add(label)


@pytest.mark.parametrize(("capacity", "n_classes"), [(12, 3), (10, 3), (20, 7)])
def test_the_first_samples_stay_whether_or_not_the_classes_divide_the_memory(capacity: int, n_classes: int) -> None:
    """With a share of 3.33 a class of three would for ever take the place of one of a class of four."""
    memory = pass_stream(GreedyBalanced(Options()), stream(600, n_classes), capacity, 16)
    assert int(memory.samples.arrivals.max()) < 200


def test_the_sample_that_makes_room_is_drawn_evenly_from_the_largest_class() -> None:
    pool = with_labels([0, 0, 0, 0, 1, 1, 2])
    generator = torch.Generator().manual_seed(0)
    lost: Counter[int] = Counter()
    for _ in range(400):
        rows = GreedyBalanced(Options()).choose(pool, 6, 6, moment(FixedNetwork(3), 3, 6, generator))
        lost.update(set(range(7)) - set(rows.tolist()))
    assert set(lost) == {0, 1, 2, 3}
    assert chisquare(list(lost.values())).pvalue > 1e-3

"""CRSV: the released program's rule for GBS, a sample at a time, and that it forgets no part of the stream."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch
from scipy.stats import chisquare

from puridiver.learner.learner import Learner
from puridiver.memory import Memory
from puridiver.memory.class_reservoir import ClassReservoir
from puridiver.memory.samples import Samples
from puridiver.recipes import Options
from tests.learner_samples import differing, patterns, tensors_of, tiny_learner
from tests.memory.fakes import FixedNetwork, empty_memory, moment, pass_batch, stream, with_labels


def pass_stream(everything: Samples, capacity: int, batch_size: int, seed: int = 0) -> Memory:
    memory, generator = empty_memory(capacity), torch.Generator().manual_seed(seed)
    n_classes = int(everything.labels.max()) + 1
    network, sampler, seen_of = FixedNetwork(n_classes), ClassReservoir(Options()), Counter[int]()
    for start in range(0, len(everything), batch_size):
        batch = everything.take(torch.arange(start, min(start + batch_size, len(everything))))
        pass_batch(sampler, memory, batch, moment(network, n_classes, start, generator, seen_of=dict(seen_of)))
        seen_of.update(batch.labels.tolist())
    return memory


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


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("capacity", "n_classes"), [(1, 3), (10, 3), (7, 4), (12, 12)])
def test_it_is_the_loop_a_sample_at_a_time(seed: int, capacity: int, n_classes: int) -> None:
    everything, loop = stream(120, n_classes, seed), NaiveLoop(capacity, seed)
    for label, arrival in zip(everything.labels.tolist(), everything.arrivals.tolist(), strict=True):
        loop.take(label, arrival)
    memory = pass_stream(everything, capacity, 1, seed)
    assert sorted(memory.samples.arrivals.tolist()) == sorted(arrival for _, arrival in loop.held)


@pytest.mark.parametrize("batch_size", [3, 8, 16])
def test_batches_decide_nothing(batch_size: int) -> None:
    one, many = (pass_stream(stream(96, 4, 1), 9, size).samples.arrivals for size in (1, batch_size))
    assert torch.equal(one, many)


@pytest.mark.parametrize("batch_size", [1, 16])
def test_plentiful_classes_are_balanced_within_one(batch_size: int) -> None:
    counts = Counter(pass_stream(stream(400, 3), 12, batch_size).samples.labels.tolist())
    assert sorted(counts.values()) == [4, 4, 4]


def test_every_part_of_a_class_is_held_alike() -> None:
    # GDumb's rule would hold the first ones alone.
    parts: Counter[int] = Counter()
    for seed in range(200):
        arrivals = pass_stream(with_labels([0, 1] * 40), 8, 16, seed).samples.arrivals
        parts.update((arrivals // 20).tolist())
    assert chisquare([parts[i] for i in range(4)]).pvalue > 1e-3


def test_a_rare_class_that_comes_late_gets_its_share() -> None:
    memory = pass_stream(with_labels([0] * 60 + [1] * 5), 10, 4)
    assert Counter(memory.samples.labels.tolist()) == {0: 5, 1: 5}


def test_a_loaded_learner_knows_how_many_of_each_class_it_has_seen(tmp_path: Path) -> None:
    images, labels = patterns(96)
    whole, parts = (tiny_learner(sampler="crsv", trainer="plain") for _ in range(2))
    for start in range(0, 96, 8):
        whole.observe(images[start : start + 8], labels[start : start + 8])
        parts.observe(images[start : start + 8], labels[start : start + 8])
        parts = Learner.load(parts.save(tmp_path), device="cpu")
    assert differing(tensors_of(whole), tensors_of(parts)) == []
    assert int(whole.memory.samples.arrivals.max()) >= 12  # it was full, and had to choose


def test_a_class_that_was_never_counted_counts_as_seen_as_often_as_it_is_held() -> None:
    """After a correction, or loaded from an older save, the memory may hold more of a class than were counted."""
    held = with_labels([0] * 10 + [1])
    rows = ClassReservoir(Options()).choose(held, 10, 10, moment(FixedNetwork(2), 2, seen_of={}))
    assert len(rows) == 10
    kept = [
        10 in ClassReservoir(Options()).choose(
            with_labels([0] * 11), 10, 10,
            moment(FixedNetwork(1), 1, generator=torch.Generator().manual_seed(seed), seen_of={}),
        ).tolist()
        for seed in range(200)
    ]  # fmt: skip
    # The eleventh of its class is taken with certainty (11 of 11), and is then one of eleven to go.
    assert 0.85 < sum(kept) / 200 < 0.96

"""RSV: every subset of the stream is equally likely to be in the memory."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from scipy.stats import chi2

from puridiver.memory.reservoir import Reservoir
from puridiver.options import Options
from tests.memory.fakes import FixedNetwork, empty_memory, moment, pass_batch, stream


def kept(n: int, capacity: int, batch_size: int, generator: torch.Generator) -> list[int]:
    memory, everything = empty_memory(Reservoir(Options()), capacity), stream(n, 2)
    network = FixedNetwork(2)
    for start in range(0, n, batch_size):
        batch = everything.take(torch.arange(start, min(start + batch_size, n)))
        pass_batch(memory, batch, moment(network, 2, start, generator))
    return memory.samples.arrivals.tolist()


@pytest.mark.parametrize("batch_size", [5])
def test_every_sample_is_kept_with_the_same_probability(batch_size: int) -> None:
    n, capacity, runs = 12, 4, 300
    generator = torch.Generator().manual_seed(batch_size)
    counts = Counter(a for _ in range(runs) for a in kept(n, capacity, batch_size, generator))
    share = capacity / n
    # Inclusions of one run exclude each other a little: the usual statistic shrinks by (1 - share) n / (n - 1).
    statistic = sum((counts[a] - runs * share) ** 2 for a in range(n)) / (runs * share * (1 - share)) * (n - 1) / n
    assert statistic < chi2.ppf(0.999, n - 1)

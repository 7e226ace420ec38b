"""RSV: every subset of the stream is equally likely to be in the memory."""

from __future__ import annotations

from collections import Counter

from scipy.stats import chi2

from puridiver.memory.reservoir import Reservoir
from puridiver.options import Options
from tests.memory.fakes import pass_stream, stream


def test_every_sample_is_kept_with_the_same_probability() -> None:
    n, capacity, runs = 12, 4, 300
    counts = Counter[int]()
    for seed in range(runs):
        counts.update(pass_stream(Reservoir(Options()), stream(n, 2), capacity, 5, seed).samples.arrivals.tolist())
    share = capacity / n
    # Inclusions of one run exclude each other a little: the usual statistic shrinks by (1 - share) n / (n - 1).
    statistic = sum((counts[a] - runs * share) ** 2 for a in range(n)) / (runs * share * (1 - share)) * (n - 1) / n
    assert statistic < chi2.ppf(0.999, n - 1)

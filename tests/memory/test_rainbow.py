"""RM: uncertainty over twelve perturbed copies, a regular stride in each class, K / C places for each."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from puridiver.memory import rainbow
from puridiver.memory.rainbow import RainbowMemory, regular_stride, variance_ratio
from puridiver.options import Options
from tests import reference
from tests.memory.fakes import FixedNetwork, moment, with_labels


@pytest.mark.parametrize("seed", range(5))
def test_variance_ratio_is_the_loop(seed: int) -> None:
    votes = torch.from_numpy(np.random.default_rng(seed).integers(4, size=(12, 9)))
    expected = [reference.variance_ratio(votes[:, i].tolist()) for i in range(9)]
    assert variance_ratio(votes, 4).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(4))
def test_regular_stride_is_the_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = torch.from_numpy(rng.integers(4, size=30))
    # Twelve votes leave few different values, so ties are the rule.
    uncertainty = torch.from_numpy(rng.integers(12, size=30) / 12)
    counts = labels.bincount(minlength=4)
    quota = torch.minimum(counts, torch.from_numpy(rng.integers(0, 9, size=4)))
    stay = regular_stride(uncertainty, labels, quota)
    expected = reference.stride_picks(uncertainty.tolist(), labels.tolist(), quota.tolist())
    assert stay.nonzero().flatten().tolist() == expected


def choose(labels: list[int], capacity: int, n_classes: int, seed: int = 0) -> list[int]:
    now = moment(FixedNetwork(n_classes), n_classes, 50, torch.Generator().manual_seed(seed))
    return RainbowMemory(Options()).choose(with_labels(labels), capacity, capacity, now).tolist()


@pytest.mark.parametrize("seed", range(3))
def test_small_classes_are_kept_whole_and_their_places_are_not_wasted(seed: int) -> None:
    labels = [0] * 12 + [1] * 2 + [2] * 8
    rows = choose(labels, 15, 3, seed)
    counts = Counter(labels[row] for row in rows)
    assert len(rows) == 15
    assert counts[1] == 2
    assert counts[0] >= 5
    assert counts[2] >= 5


def test_the_kept_samples_stride_through_the_uncertainties(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = [0] * 8 + [1] * 8
    ratios = torch.rand(16, generator=torch.Generator().manual_seed(5))

    def fixed_ratio(votes: Tensor, n_classes: int) -> Tensor:
        assert votes.shape == (12, 16)
        return ratios

    monkeypatch.setattr(rainbow, "variance_ratio", fixed_ratio)
    assert choose(labels, 8, 2) == reference.stride_picks(ratios.tolist(), labels, [4, 4])


def test_equals_are_chosen_among_by_lot(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came first must not stay for ever where a network is equally sure of everything."""
    monkeypatch.setattr(rainbow, "variance_ratio", lambda votes, n_classes: torch.zeros(votes.shape[1]))
    counts: Counter[int] = Counter()
    for seed in range(80):
        counts.update(choose([0] * 12, 8, 1, seed))
    assert chisquare([counts[row] for row in range(12)]).pvalue > 1e-3

"""Purity, diversity and the precision of a split against loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from puridiver.metrics import memory_metrics, split_metrics
from puridiver.mixture import Mixture
from puridiver.trainers import Split

RNG = np.random.default_rng(0)
GIVEN, TRUE = torch.from_numpy(RNG.integers(4, size=30)), torch.from_numpy(RNG.integers(3, size=30))
FEATURES = torch.from_numpy(RNG.normal(size=(30, 5)))


def test_memory_metrics_against_loops():
    found = memory_metrics(GIVEN, TRUE, 4, FEATURES)
    given, true = GIVEN.tolist(), TRUE.tolist()
    assert found["memory_size"] == 30
    assert found["memory_purity"] == sum(g == t for g, t in zip(given, true, strict=True)) / 30
    assert found["memory_per_class"] == [given.count(c) for c in range(4)]
    assert found["memory_diversity"] == pytest.approx(naive_diversity(FEATURES.numpy(), true, 4))


def naive_diversity(features: np.ndarray, true: list[int], n_classes: int) -> float:
    """Equation 12: the mean distance of pairs of one class, averaged over classes."""
    means = []
    for c in range(n_classes):
        members = [f for f, t in zip(features, true, strict=True) if t == c]
        pairs = [(i, j) for i in range(len(members)) for j in range(len(members)) if i != j]
        distances = [np.sqrt(((members[i] - members[j]) ** 2).sum()) for i, j in pairs]
        means.append(float(np.mean(distances)) if distances else 0.0)
    return sum(means) / n_classes


def test_without_features_there_is_no_diversity():
    assert "memory_diversity" not in memory_metrics(GIVEN, TRUE, 4)


def test_an_empty_memory_has_no_purity():
    empty = torch.empty(0, dtype=torch.int64)
    found = memory_metrics(empty, empty, 3)
    assert found["memory_size"] == 0
    assert math.isnan(found["memory_purity"])
    assert found["memory_per_class"] == [0, 0, 0]


def make_split(codes: torch.Tensor) -> Split:
    p_model = torch.from_numpy(RNG.random((len(codes), 4)))
    zero, two = torch.zeros(len(codes)), torch.zeros(2)
    mixture = Mixture(zero, two, two, two, torch.zeros(()), torch.ones(()))
    masks = (codes == 0, codes == 1, codes == 2)
    return Split(torch.arange(len(codes)), *masks, zero, zero, p_model, zero, mixture, mixture)


def test_the_precision_of_each_set_against_a_loop():
    codes = torch.from_numpy(RNG.integers(3, size=30))
    split = make_split(codes)
    found = split_metrics(split.sets(), GIVEN, TRUE)
    guess = split.p_model.argmax(dim=1).tolist()
    right: dict[int, list[bool]] = {0: [], 1: [], 2: []}
    for code, g, t, predicted in zip(codes.tolist(), GIVEN.tolist(), TRUE.tolist(), guess, strict=True):
        right[code].append({0: g == t, 1: predicted == t, 2: g != t}[code])
    for code, name in enumerate(("clean", "relabel", "unlabelled")):
        assert found[f"{name}_size"] == len(right[code])
        assert found[f"{name}_precision"] == pytest.approx(np.mean(right[code]))


def test_an_empty_set_has_no_precision():
    found = split_metrics(make_split(torch.zeros(30, dtype=torch.int64)).sets(), GIVEN, TRUE)
    assert (found["clean_size"], found["relabel_size"], found["relabel_precision"]) == (30, 0, None)
    assert found["unlabelled_precision"] is None

"""Votes of the nearest neighbours against a loop."""

from __future__ import annotations

import math

import numpy as np
import torch

from puridiver.auditing import neighbours


def by_loop(features: np.ndarray, given: np.ndarray, n_classes: int, k: int) -> np.ndarray:
    votes = np.zeros((len(features), n_classes))
    for i, own in enumerate(features):
        cosines = [
            (float(own @ other / np.linalg.norm(own) / np.linalg.norm(other)), j)
            for j, other in enumerate(features)
            if j != i
        ]
        nearest = sorted(cosines, reverse=True)[:k]
        total = sum(math.exp(cosine / neighbours.SOFTNESS) for cosine, _ in nearest)
        for cosine, j in nearest:
            votes[i, given[j]] += math.exp(cosine / neighbours.SOFTNESS) / total
    return votes


def test_votes_are_those_of_a_loop(monkeypatch):
    monkeypatch.setattr(neighbours, "CHUNK", 7)  # several chunks, the last one smaller
    rng = np.random.default_rng(0)
    features, given = rng.normal(size=(30, 4)), rng.integers(3, size=30)
    found = neighbours.neighbour_votes(torch.from_numpy(features), torch.from_numpy(given), 3, 5)
    assert np.allclose(found.numpy(), by_loop(features, given, 3, 5), atol=1e-5)


def test_a_sample_has_no_vote_on_itself():
    features = torch.tensor([[1.0, 0.0], [1.0, 0.01], [1.0, 0.02]])
    votes = neighbours.neighbour_votes(features, torch.tensor([0, 1, 1]), 2, 20)
    assert votes[0].tolist() == [0, 1]


def test_alone_there_is_nobody_to_ask():
    assert neighbours.neighbour_votes(torch.ones(1, 3), torch.tensor([0]), 2, 20).tolist() == [[0, 0]]

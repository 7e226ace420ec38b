"""Whether samples that lie with their class count as clean and strangers do not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from puridiver.spr import clean_probability


def clustered(n: int = 120, wrong: float = 0.4, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Features in six directions, given labels of which only 0 and 1 occur, and whether each is right."""
    generator = torch.Generator().manual_seed(seed)
    given = torch.arange(n) % 2
    right = torch.rand(n, generator=generator) >= wrong
    true = torch.where(right, given, 2 + torch.randint(4, (n,), generator=generator))
    return torch.eye(6)[true] + 0.15 * torch.randn(n, 6, generator=generator), given, right


def probability(x: Tensor, given: Tensor, n_graphs: int = 5, seed: int = 0, n_classes: int = 4) -> Tensor:
    return clean_probability(x, given, n_classes, n_graphs, torch.Generator().manual_seed(seed))


def test_strangers_are_told_from_members() -> None:
    x, given, right = clustered()
    p = probability(x, given)
    assert p.shape == (120,)
    assert float(p[right].mean()) > 0.8
    assert float(p[~right].mean()) < 0.2


@pytest.mark.parametrize("n", [1, 2])
def test_a_class_of_one_or_two_samples_is_believed(n: int) -> None:
    assert probability(torch.randn(n, 6), torch.zeros(n, dtype=torch.int64)).tolist() == [1.0] * n


def test_equal_features_are_believed() -> None:
    # Every pair is similar with probability 1, so every graph is complete.
    assert probability(torch.ones(6, 3), torch.tensor([0, 0, 0, 1, 1, 1])).tolist() == [1.0] * 6


def test_features_without_direction_give_finite_probabilities() -> None:
    p = probability(torch.zeros(6, 3), torch.tensor([0, 0, 0, 1, 1, 2]))
    assert torch.isfinite(p).all()
    assert (p >= 0).all()
    assert (p <= 1).all()

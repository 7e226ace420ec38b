"""Mixup: the Beta draw against SciPy's distribution, the blend against its formula."""

from __future__ import annotations

import pytest
import torch
from scipy import stats

from puridiver.augment import MixupDraw, beta_sample, draw_mixup, mix

from .samples import generator


@pytest.mark.parametrize("alpha", [0.2, 0.75, 1.0, 4.0])
def test_beta_sample_follows_the_beta_distribution(alpha: float) -> None:
    source = generator(7)
    samples = [beta_sample(alpha, source) for _ in range(1500)]
    assert stats.kstest(samples, stats.beta(alpha, alpha).cdf).pvalue > 0.001


def test_beta_sample_depends_on_the_generator_alone() -> None:
    first, second = generator(3), generator(3)
    assert [beta_sample(0.5, first) for _ in range(4)] == [beta_sample(0.5, second) for _ in range(4)]
    assert beta_sample(0.5, generator(3)) != beta_sample(0.5, generator(4))


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_alpha_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha should be a finite number above 0"):
        beta_sample(alpha, generator())


def test_keep_majority_leaves_each_sample_at_least_half() -> None:
    plain = [draw_mixup(4, 0.75, generator(seed)) for seed in range(60)]
    majority = [draw_mixup(4, 0.75, generator(seed), keep_majority=True) for seed in range(60)]
    assert min(draw.lam for draw in plain) < 0.5
    assert [draw.lam for draw in majority] == [max(draw.lam, 1 - draw.lam) for draw in plain]


def test_permutations_are_permutations_and_differ() -> None:
    source = generator()
    draws = [draw_mixup(20, 1.0, source).permutation for _ in range(3)]
    for permutation in draws:
        assert torch.equal(permutation.sort().values, torch.arange(20))
    assert not torch.equal(draws[0], draws[1])


@pytest.mark.parametrize("shape", [(6, 3, 5, 5), (6, 10)])
def test_mix_blends_each_sample_with_its_partner(shape: tuple[int, ...]) -> None:
    tensor = torch.rand(shape, generator=generator())
    before = tensor.clone()
    draw = draw_mixup(6, 0.75, generator(1))
    mixed = mix(tensor, draw)
    for i, partner in enumerate(draw.permutation.tolist()):
        torch.testing.assert_close(mixed[i], draw.lam * tensor[i] + (1 - draw.lam) * tensor[partner])
    assert torch.equal(tensor, before)


def test_mixed_targets_stay_probabilities() -> None:
    targets = torch.eye(5)[torch.randint(5, (12,), generator=generator())]
    mixed = mix(targets, draw_mixup(12, 0.75, generator()))
    torch.testing.assert_close(mixed.sum(1), torch.ones(12))


def test_mix_keeps_the_dtype() -> None:
    draw = MixupDraw(torch.tensor([1, 0]), 0.25)
    assert mix(torch.ones(2, 3, dtype=torch.bfloat16), draw).dtype == torch.bfloat16


def test_wrong_arguments_say_what_is_allowed() -> None:
    draw = draw_mixup(2, 1.0, generator())
    with pytest.raises(ValueError, match=r"floating-point tensor .* got torch.uint8"):
        mix(torch.zeros(2, 3, dtype=torch.uint8), draw)
    with pytest.raises(ValueError, match="for 2 samples, but the tensor has 3"):
        mix(torch.zeros(3, 3), draw)

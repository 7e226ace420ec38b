"""CutMix and Mixup plans: their draws against the Beta distribution, their application against a loop."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from puridiver.augment import Augmentation, augmentation_for
from puridiver.augment.views import beta_samples, draw_mixup_plan, planned_mix

from .samples import generator, random_images


def cutmix(height: int, width: int) -> Augmentation:
    return augmentation_for((height, width, 3), {})


@given(height=st.integers(1, 20), width=st.integers(1, 20), seed=st.integers(0, 10_000))
def test_cutmix_equals_a_loop(height: int, width: int, seed: int) -> None:
    n, mixing = 4, cutmix(height, width)
    images, targets = random_images(n, (3, height, width), seed), torch.eye(n)
    for row in mixing.mixing_plan(2, n, 1.0, generator(seed)):
        partners, (y0, y1, x0, x1) = row[:n].tolist(), row[n:].tolist()
        assert sorted(partners) == list(range(n))
        expected = images.clone()
        for i, partner in enumerate(partners):
            for y in range(y0, y1):
                expected[i, :, y, x0:x1] = images[partner, :, y, x0:x1]
        mixed, shares = mixing.mix(images, row), mixing.share(targets, row)
        assert torch.equal(mixed, expected)
        kept = 1 - (y1 - y0) * (x1 - x0) / (height * width)
        torch.testing.assert_close(shares, kept * targets + (1 - kept) * targets[partners])


def test_cutmix_boxes_have_the_area_of_clipped_boxes_and_touch_every_border() -> None:
    y0, y1, x0, x1 = cutmix(200, 200).mixing_plan(2000, 2, 1.0, generator())[:, 2:].T
    cut = ((y1 - y0) * (x1 - x0)) / 200**2
    # a side s about a uniform centre keeps s - s^2 / 4 on average; s^2 = 1 - lam is uniform for alpha = 1
    assert abs(cut.mean() - (1 / 2 - 1 / 5 + 1 / 48)) < 4 * cut.std() / 2000**0.5
    assert min(y0.min(), x0.min()) == 0
    assert max(y1.max(), x1.max()) == 200


def test_cutmix_has_its_probability() -> None:
    boxes = cutmix(64, 64).mixing_plan(4000, 2, 0.3, generator())[:, 2:]
    assert float((boxes[:, 1] > boxes[:, 0]).float().mean()) == pytest.approx(0.3, abs=0.04)
    alone = cutmix(16, 16).mixing_plan(50, 1, 1.0, generator())  # one sample has no partner
    assert torch.equal(alone[:, 1], alone[:, 2])


@pytest.mark.parametrize("alpha", [0.2, 0.75, 1.0, 4.0])
def test_beta_samples_follow_the_beta_distribution(alpha: float) -> None:
    samples = beta_samples(1500, alpha, generator(7))
    assert stats.kstest(samples.numpy(), stats.beta(alpha, alpha).cdf).pvalue > 0.001
    assert torch.equal(beta_samples(1500, alpha, generator(7)), samples)
    assert not torch.equal(beta_samples(1500, alpha, generator(8)), samples)


@pytest.mark.parametrize("shape", [(6, 3, 5, 5), (6, 10)])
def test_mixup_blends_each_sample_with_its_partner(shape: tuple[int, ...]) -> None:
    tensor = torch.rand(shape, generator=generator())
    plan = draw_mixup_plan(20, 6, 0.75, generator(1))
    assert len({tuple(row[:-1].tolist()) for row in plan}) > 10
    for row in plan:
        lam, mixed = float(row[-1:].view(torch.float64)), planned_mix(tensor, row)
        assert 0.5 <= lam <= 1
        for i, partner in enumerate(row[:-1].tolist()):
            torch.testing.assert_close(mixed[i], lam * tensor[i] + (1 - lam) * tensor[partner])

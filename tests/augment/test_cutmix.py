"""CutMix: the box, the pixel share that lam reports, and what each pixel shows."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from puridiver.augment import CutMixDraw, cutmix, draw_cutmix

from .samples import generator, random_images


@settings(deadline=None)
@given(
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    alpha=st.sampled_from([0.2, 1.0, 5.0]),
    seed=st.integers(0, 10_000),
)
def test_lam_is_the_share_of_pixels_that_stay(height: int, width: int, alpha: float, seed: int) -> None:
    draw = draw_cutmix(2, height, width, alpha, generator(seed))
    # sample i is constant i, so that each pixel tells where it came from
    images = torch.arange(2.0).view(2, 1, 1, 1).expand(2, 3, height, width)
    swapped = CutMixDraw(torch.tensor([1, 0]), draw.y0, draw.y1, draw.x0, draw.x1, draw.lam)
    share = (cutmix(images, swapped) == images).float().mean((1, 2, 3))
    torch.testing.assert_close(share, torch.full((2,), draw.lam))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_each_image_shows_its_partner_inside_the_box_alone(dtype: torch.dtype) -> None:
    images = random_images(7, (3, 12, 10)).to(dtype)
    before = images.clone()
    draw = draw_cutmix(7, 12, 10, 1.0, generator(5))
    inside = torch.zeros(12, 10, dtype=torch.bool)
    inside[draw.y0 : draw.y1, draw.x0 : draw.x1] = True
    assert inside.any()
    expected = torch.where(inside, images[draw.permutation], images)
    mixed = cutmix(images, draw)
    assert torch.equal(mixed, expected)
    assert mixed.dtype == dtype
    assert torch.equal(images, before)


def test_mean_box_area_is_that_of_clipped_boxes() -> None:
    source = generator()
    draws = [draw_cutmix(1, 200, 200, 1.0, source) for _ in range(400)]
    cut = torch.tensor([1 - draw.lam for draw in draws])
    # a side s about a uniform centre keeps s - s^2 / 4 on average; s^2 = 1 - lam is uniform for alpha = 1
    assert abs(cut.mean() - (1 / 2 - 1 / 5 + 1 / 48)) < 4 * cut.std() / 20


def test_box_can_touch_every_border() -> None:
    draws = [draw_cutmix(1, 16, 16, 1.0, generator(seed)) for seed in range(200)]
    assert any(draw.y0 == 0 for draw in draws)
    assert any(draw.y1 == 16 for draw in draws)
    assert any(draw.x0 == 0 for draw in draws)
    assert any(draw.x1 == 16 for draw in draws)
    assert any(draw.y0 > 0 and draw.y1 < 16 and draw.y1 > draw.y0 for draw in draws)


def test_wrong_arguments_say_what_is_allowed() -> None:
    draw = draw_cutmix(3, 8, 8, 1.0, generator())
    with pytest.raises(ValueError, match=r"shape \(3, C, H, W\), but got \(2, 3, 8, 8\)"):
        cutmix(random_images(2, (3, 8, 8)), draw)
    with pytest.raises(ValueError, match="1 or more pixels, but got 0 and 8"):
        draw_cutmix(3, 0, 8, 1.0, generator())
    with pytest.raises(ValueError, match="alpha should be a finite number above 0, but got 0"):
        draw_cutmix(3, 8, 8, 0, generator())

"""Crop after zero padding and horizontal flip against a loop, and the chances of their draws."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from puridiver.augment import (
    CropFlipDraw,
    crop_flip,
    draw_crop_flip,
    draw_crop_flip_plan,
    leave_unmoved,
    planned_crop_flip,
)

from .samples import SHAPES, assert_rows_independent, generator, random_images


def crop_flip_by_loop(image: Tensor, padding: int, top: int, left: int, flip: bool) -> Tensor:
    channels, height, width = image.shape
    padded = torch.zeros(channels, height + 2 * padding, width + 2 * padding, dtype=torch.uint8)
    padded[:, padding : padding + height, padding : padding + width] = image
    crop = padded[:, top : top + height, left : left + width]
    return crop.flip(2) if flip else crop


@settings(deadline=None)
@given(
    height=st.integers(4, 12),
    width=st.integers(4, 12),
    channels=st.sampled_from([1, 3]),
    padding=st.integers(0, 5),
    flip=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_crop_flip_equals_a_loop(height: int, width: int, channels: int, padding: int, flip: bool, seed: int) -> None:
    images = random_images(5, (channels, height, width), seed)
    draw = draw_crop_flip(5, padding, flip, generator(seed))
    expected = [
        crop_flip_by_loop(image, padding, int(top), int(left), bool(coin))
        for image, top, left, coin in zip(images, draw.top, draw.left, draw.flip, strict=True)
    ]
    assert torch.equal(crop_flip(images, draw), torch.stack(expected))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("padding", [0, 4])
def test_rows_are_independent(shape: tuple[int, int, int], padding: int) -> None:
    draw = draw_crop_flip(9, padding, True, generator())
    assert_rows_independent(crop_flip, random_images(9, shape), draw)


def test_unmoved_result_does_not_share_memory_with_the_input() -> None:
    images = random_images(3, (3, 8, 8))
    result = crop_flip(images, draw_crop_flip(3, 0, False, generator()))
    assert torch.equal(result, images)
    result.zero_()
    assert images.any()


def test_every_place_is_as_likely_and_the_coin_is_fair() -> None:
    n, places = 9000, 9
    draw = draw_crop_flip(n, 4, True, generator())
    for offset in (draw.top, draw.left):
        counts = offset.bincount(minlength=places)
        assert len(counts) == places
        # five standard deviations of a binomial count
        assert (counts - n / places).abs().max() < 5 * (n / places * (1 - 1 / places)) ** 0.5
    assert abs(int(draw.flip.sum()) - n / 2) < 5 * (n / 4) ** 0.5


def test_offsets_of_one_sample_are_not_tied_to_each_other() -> None:
    draw = draw_crop_flip(9000, 4, True, generator())
    columns = torch.stack([draw.top.float(), draw.left.float(), draw.flip.float()])
    correlation = torch.corrcoef(columns) - torch.eye(3)
    assert correlation.abs().max() < 5 / 9000**0.5


def test_flip_can_be_switched_off_without_moving_the_crop() -> None:
    with_flip = draw_crop_flip(50, 3, True, generator())
    without = draw_crop_flip(50, 3, False, generator())
    assert with_flip.flip.any()
    assert not without.flip.any()
    assert torch.equal(with_flip.top, without.top)
    assert torch.equal(with_flip.left, without.left)


def test_wrong_arguments_say_what_is_allowed() -> None:
    images = random_images(2, (3, 8, 8))
    draw = draw_crop_flip(2, 1, True, generator())
    with pytest.raises(ValueError, match="padding should be 0 or more pixels, but got -1"):
        draw_crop_flip(2, -1, True, generator())
    with pytest.raises(ValueError, match="n should be 0 or more samples, but got -2"):
        draw_crop_flip(-2, 1, True, generator())
    with pytest.raises(ValueError, match="got 2 rows for 1 images"):
        crop_flip(images[:1], draw)
    for wrong in (images.float(), images[0], images[:, :2], images[..., :3]):
        with pytest.raises(ValueError, match="images should be uint8 of shape"):
            crop_flip(wrong, draw)


def test_draw_can_be_made_by_hand() -> None:
    image = torch.arange(16, dtype=torch.uint8).view(1, 1, 4, 4)
    draw = CropFlipDraw(1, torch.tensor([0]), torch.tensor([1]), torch.tensor([True]))
    assert crop_flip(image, draw)[0, 0].tolist() == [[0, 0, 0, 0], [3, 2, 1, 0], [7, 6, 5, 4], [11, 10, 9, 8]]


@pytest.mark.parametrize("flip", [True, False])
@pytest.mark.parametrize("padding", [0, 3])
def test_a_planned_crop_and_flip_is_that_of_its_draw(padding: int, flip: bool) -> None:
    images = random_images(5, (3, 9, 7))
    plan = draw_crop_flip_plan(4, 5, padding, flip, generator())
    together = draw_crop_flip(4 * 5, padding, flip, generator())
    for i, row in enumerate(plan):
        of_batch = together.rows(slice(5 * i, 5 * i + 5))
        assert torch.equal(planned_crop_flip(images, row, padding), crop_flip(images, of_batch))


def test_part_of_a_plan_can_be_left_unmoved() -> None:
    images = random_images(6, (3, 9, 7))
    plan = draw_crop_flip_plan(30, 6, 3, True, generator())
    before = [planned_crop_flip(images, row, 3) for row in plan]
    leave_unmoved(plan, 4, 3)
    for row, earlier in zip(plan, before, strict=True):
        moved = planned_crop_flip(images, row, 3)
        assert torch.equal(moved[:4], earlier[:4])
        assert torch.equal(moved[4:], images[4:])
    assert any(not torch.equal(earlier[4:], images[4:]) for earlier in before)

"""Crop after zero padding and horizontal flip against a loop, and their draws."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from puridiver.augment import crop_flip, draw_crop_flip, draw_crop_flip_plan, leave_unmoved, planned_crop_flip

from .samples import assert_uniform, generator, random_images


def crop_flip_by_loop(image: Tensor, padding: int, top: int, left: int, flip: bool) -> Tensor:
    channels, height, width = image.shape
    padded = torch.zeros(channels, height + 2 * padding, width + 2 * padding, dtype=torch.uint8)
    padded[:, padding : padding + height, padding : padding + width] = image
    crop = padded[:, top : top + height, left : left + width]
    return crop.flip(2) if flip else crop


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
    before = images.clone()
    draw = draw_crop_flip(5, padding, flip, generator(seed))
    expected = [
        crop_flip_by_loop(image, padding, int(top), int(left), bool(coin))
        for image, top, left, coin in zip(images, draw.top, draw.left, draw.flip, strict=True)
    ]
    result = crop_flip(images, draw)
    assert torch.equal(result, torch.stack(expected))
    result.zero_()
    assert torch.equal(images, before)  # the result never shares memory with the input


def test_draws_are_uniform_and_independent() -> None:
    draw = draw_crop_flip(9000, 4, True, generator())
    assert_uniform(draw.top, 9)
    assert_uniform(draw.left, 9)
    assert_uniform(draw.flip.long(), 2)
    correlation = torch.corrcoef(torch.stack([draw.top.float(), draw.left.float(), draw.flip.float()]))
    assert (correlation - torch.eye(3)).abs().max() < 5 / 9000**0.5
    without = draw_crop_flip(9000, 4, False, generator())
    assert not without.flip.any()
    assert torch.equal(without.top, draw.top)


@pytest.mark.parametrize(("padding", "flip"), [(0, True), (3, True), (3, False)])
def test_a_plans_row_equals_its_draw(padding: int, flip: bool) -> None:
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
    for row in plan:
        leave_unmoved(row, 4, 3)
    for row, earlier in zip(plan, before, strict=True):
        moved = planned_crop_flip(images, row, 3)
        assert torch.equal(moved[:4], earlier[:4])
        assert torch.equal(moved[4:], images[4:])
    assert any(not torch.equal(earlier[4:], images[4:]) for earlier in before)


def test_wrong_arguments_are_refused() -> None:
    images, draw = random_images(2, (3, 8, 8)), draw_crop_flip(2, 1, True, generator())
    with pytest.raises(ValueError, match="padding should be 0 or more"):
        draw_crop_flip(2, -1, True, generator())
    with pytest.raises(ValueError, match="2 rows for 1 images"):
        crop_flip(images[:1], draw)
    for wrong in (images.float(), images[0], images[:, :2], images[..., :3]):
        with pytest.raises(ValueError, match="images should be uint8 of shape"):
            crop_flip(wrong, draw)

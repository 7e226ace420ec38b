"""Crop and flip against a loop, their draws, and the scaling of images; on a GPU all views are those of the CPU."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from puridiver.augment import POLICIES
from puridiver.augment.rainbow import draw_centres, perturbations
from puridiver.augment.views import crop_flip, crop_flip_view, draw_crop_flip, to_float

from .samples import SHAPES, assert_uniform, generator, random_images


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
    drawn = zip(images, *draw.tolist(), strict=True)
    expected = [crop_flip_by_loop(image, padding, top, left, bool(coin)) for image, top, left, coin in drawn]
    result = crop_flip(images, draw, padding)
    assert torch.equal(result, torch.stack(expected))
    assert torch.equal(crop_flip_view(images, padding, flip, generator(seed)), result)
    result.zero_()
    assert torch.equal(images, before)  # the result never shares memory with the input


def test_draws_are_uniform_and_independent() -> None:
    draw = draw_crop_flip(9000, 4, True, generator())
    for part, n_values in zip(draw, (9, 9, 2), strict=True):
        assert_uniform(part, n_values)
    assert (torch.corrcoef(draw.float()) - torch.eye(3)).abs().max() < 5 / 9000**0.5
    without = draw_crop_flip(9000, 4, False, generator())
    assert not without[2].any()
    assert torch.equal(without[:2], draw[:2])


def test_to_float_scales_grey_levels() -> None:
    images = random_images(4, (3, 5, 6))
    expected = (images.double() / 255 - 0.5) / 0.25
    torch.testing.assert_close(to_float(images), expected.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", SHAPES)
def test_cpu_and_gpu_give_the_same_images(shape: tuple[int, int, int]) -> None:
    images = random_images(300, shape)
    for apply in (*(policy.apply for policy in POLICIES.values()), lambda x, g: crop_flip_view(x, 4, True, g)):
        assert torch.equal(apply(images.cuda(), generator()).cpu(), apply(images, generator()))
    centres = draw_centres(300, *shape[1:], generator())
    assert torch.equal(perturbations(images.cuda(), centres.cuda()).cpu(), perturbations(images, centres))


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_views_do_not_wait_for_the_gpu() -> None:
    images = random_images(300, (3, 32, 32)).cuda()
    torch.cuda.set_sync_debug_mode("error")
    try:
        to_float(POLICIES["autoaugment"].apply(crop_flip_view(images, 4, True, generator()), generator()))
    finally:
        torch.cuda.set_sync_debug_mode("default")

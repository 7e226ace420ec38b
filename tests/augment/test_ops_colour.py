"""Colour operations against Pillow, grey level for grey level."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from puridiver.augment import ops_colour
from puridiver.augment.policies.autoaugment import OPERATIONS

from .samples import PILLOW_BLENDS_UNFUSED, SHAPES, by_pillow, random_images, telling_images

ENHANCEMENTS = {
    "brightness": ImageEnhance.Brightness,
    "colour": ImageEnhance.Color,
    "contrast": ImageEnhance.Contrast,
    "sharpness": ImageEnhance.Sharpness,
}
PLAIN: dict[str, Callable[[Image.Image], Image.Image]] = {
    "autocontrast": ImageOps.autocontrast,
    "equalise": ImageOps.equalize,
    "invert": ImageOps.invert,
}


def assert_enhanced(images: Tensor, name: str, factor: float) -> None:
    ours = getattr(ops_colour, name)(images, factor)
    reference = by_pillow(images, lambda image: ENHANCEMENTS[name](image).enhance(factor))
    assert ours.dtype == torch.uint8
    assert (ours.int() - reference.int()).abs().max() <= (0 if PILLOW_BLENDS_UNFUSED else 1), (name, factor)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", PLAIN)
def test_operation_without_magnitude_equals_pillow(name: str, shape: tuple[int, int, int]) -> None:
    images = telling_images(shape)
    assert torch.equal(getattr(ops_colour, name)(images), by_pillow(images, PLAIN[name]))


def test_posterise_and_solarise_equal_pillow() -> None:
    images = telling_images((3, 11, 7))
    for bits in range(1, 9):
        reference = by_pillow(images, lambda image, bits=bits: ImageOps.posterize(image, bits))
        assert torch.equal(ops_colour.posterise(images, bits), reference)
    for threshold in (0, 1, 32, 64, 128, 255, 256, *OPERATIONS["solarise"].levels):
        level = math.ceil(threshold)
        reference = by_pillow(images, lambda image, level=level: ImageOps.solarize(image, level))
        assert torch.equal(ops_colour.solarise(images, threshold), reference)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 4, 9)])
@pytest.mark.parametrize("name", ENHANCEMENTS)
def test_enhancement_equals_pillow_at_every_magnitude(name: str, shape: tuple[int, int, int]) -> None:
    images, levels = telling_images(shape), OPERATIONS[name].levels
    for factor in (0.0, *(1 - level for level in levels), *(1 + level for level in levels)):
        assert_enhanced(images, name, factor)
        if name == "colour" and shape[0] == 1:
            assert torch.equal(ops_colour.colour(images, factor), images)


@given(
    name=st.sampled_from(sorted(ENHANCEMENTS)),
    factor=st.floats(0, 3, allow_subnormal=False),
    seed=st.integers(0, 10_000),
)
def test_enhancement_equals_pillow_at_any_factor(name: str, factor: float, seed: int) -> None:
    assert_enhanced(random_images(2, (3, 6, 5), seed), name, factor)


@given(levels=st.lists(st.integers(0, 255), min_size=1, max_size=6), seed=st.integers(0, 10_000))
def test_histogram_operations_equal_pillow_with_few_levels(levels: list[int], seed: int) -> None:
    palette = torch.tensor(levels, dtype=torch.uint8)
    images = palette[random_images(2, (1, 24, 24), seed).long() % len(levels)]
    for name in ("autocontrast", "equalise"):
        assert torch.equal(getattr(ops_colour, name)(images), by_pillow(images, PLAIN[name]))


@pytest.mark.parametrize("name", [*ENHANCEMENTS, "posterise", "solarise", *PLAIN])
def test_samples_are_independent(name: str) -> None:
    """Each sample gets its own magnitude, and none sees another."""
    operation, levels = getattr(ops_colour, name), OPERATIONS[name].levels
    images = random_images(len(levels), (3, 11, 7))
    before = images.clone()
    if name in PLAIN:
        together, alone = operation(images), [operation(image[None]) for image in images]
    else:
        together = operation(images, torch.tensor(levels, dtype=torch.float64))
        alone = [operation(image[None], level) for image, level in zip(images, levels, strict=True)]
    assert torch.equal(together, torch.cat(alone))
    assert torch.equal(images, before)

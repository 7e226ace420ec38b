"""Colour operations against Pillow, grey level for grey level."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from puridiver.augment import ops_colour
from puridiver.augment.autoaugment import OPERATIONS

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
BLEND_TOLERANCE = 0 if PILLOW_BLENDS_UNFUSED else 1


def enhanced(name: str, factor: float) -> Callable[[Image.Image], Image.Image]:
    return lambda image: ENHANCEMENTS[name](image).enhance(factor)


def enhancement_factors(name: str) -> list[float]:
    levels = OPERATIONS[name].levels
    return [0.0, *(1 - level for level in levels), *(1 + level for level in levels)]


def assert_same_levels(ours: Tensor, reference: Tensor, tolerance: int = 0) -> None:
    assert ours.dtype == torch.uint8
    assert (ours.int() - reference.int()).abs().max() <= tolerance


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", PLAIN)
def test_operation_without_magnitude_equals_pillow(name: str, shape: tuple[int, int, int]) -> None:
    images = telling_images(shape)
    assert_same_levels(getattr(ops_colour, name)(images), by_pillow(images, PLAIN[name]))


@pytest.mark.parametrize("bits", range(1, 9))
def test_posterise_equals_pillow(bits: int) -> None:
    images = telling_images((3, 11, 7))
    assert_same_levels(
        ops_colour.posterise(images, bits), by_pillow(images, lambda image: ImageOps.posterize(image, bits))
    )


@pytest.mark.parametrize("threshold", [0, 1, 32, 64, 128, 255, 256, *OPERATIONS["solarise"].levels])
def test_solarise_equals_pillow(threshold: float) -> None:
    images = telling_images((3, 11, 7))
    reference = by_pillow(images, lambda image: ImageOps.solarize(image, math.ceil(threshold)))
    assert_same_levels(ops_colour.solarise(images, threshold), reference)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ENHANCEMENTS)
def test_enhancement_equals_pillow_at_every_magnitude(name: str, shape: tuple[int, int, int]) -> None:
    images = telling_images(shape)
    for factor in enhancement_factors(name):
        ours = getattr(ops_colour, name)(images, factor)
        assert_same_levels(ours, by_pillow(images, enhanced(name, factor)), BLEND_TOLERANCE)


@settings(deadline=None)
@given(
    name=st.sampled_from(sorted(ENHANCEMENTS)),
    factor=st.floats(0, 3, allow_subnormal=False),
    seed=st.integers(0, 10_000),
)
def test_enhancement_equals_pillow_at_any_factor(name: str, factor: float, seed: int) -> None:
    images = random_images(2, (3, 6, 5), seed)
    ours = getattr(ops_colour, name)(images, factor)
    assert_same_levels(ours, by_pillow(images, enhanced(name, factor)), BLEND_TOLERANCE)


@settings(deadline=None)
@given(levels=st.lists(st.integers(0, 255), min_size=1, max_size=6), seed=st.integers(0, 10_000))
def test_histogram_operations_equal_pillow_with_few_levels(levels: list[int], seed: int) -> None:
    palette = torch.tensor(levels, dtype=torch.uint8)
    images = palette[random_images(2, (1, 24, 24), seed).long() % len(levels)]
    for name in ("autocontrast", "equalise"):
        assert_same_levels(getattr(ops_colour, name)(images), by_pillow(images, PLAIN[name]))


def test_colour_leaves_grey_images_alone() -> None:
    images = telling_images((1, 8, 8))
    for factor in enhancement_factors("colour"):
        assert torch.equal(ops_colour.colour(images, factor), images)


@pytest.mark.parametrize("name", [*ENHANCEMENTS, "posterise", "solarise"])
def test_each_sample_gets_its_own_magnitude(name: str) -> None:
    operation = getattr(ops_colour, name)
    levels = OPERATIONS[name].levels
    images = random_images(len(levels), (3, 11, 7))
    before = images.clone()
    together = operation(images, torch.tensor(levels, dtype=torch.float64))
    alone = [operation(images[i : i + 1], level) for i, level in enumerate(levels)]
    assert torch.equal(together, torch.cat(alone))
    assert torch.equal(images, before)


@pytest.mark.parametrize("name", PLAIN)
def test_samples_do_not_see_each_other(name: str) -> None:
    operation = getattr(ops_colour, name)
    images = telling_images((3, 11, 7))
    before = images.clone()
    assert torch.equal(operation(images), torch.cat([operation(image.unsqueeze(0)) for image in images]))
    assert torch.equal(images, before)

"""Geometric operations against Pillow's affine transform and rotation, pixel for pixel."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from puridiver.augment import ops_geometry
from puridiver.augment.policies.autoaugment import OPERATIONS

from .samples import SHAPES, by_pillow, random_images

NAMES = ("rotate", "shear_x", "shear_y", "translate_x", "translate_y")


def pillow_geometry(image: Image.Image, name: str, value: float, fill: int) -> Image.Image:
    colour = fill if image.mode == "L" else (fill, fill, fill)
    if name == "rotate":
        return image.rotate(value, Image.Resampling.NEAREST, fillcolor=colour)
    width, height = image.size
    matrix = {
        "shear_x": (1, value, 0, 0, 1, 0),
        "shear_y": (1, 0, 0, value, 1, 0),
        "translate_x": (1, 0, value * width, 0, 1, 0),
        "translate_y": (1, 0, 0, 0, 1, value * height),
    }[name]
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST, fillcolor=colour)


def assert_equals_pillow(images: Tensor, name: str, value: float, fill: int) -> None:
    ours = getattr(ops_geometry, name)(images, value, fill)
    reference = by_pillow(images, lambda image: pillow_geometry(image, name, value, fill))
    assert torch.equal(ours, reference), (name, value)


@pytest.mark.parametrize("shape", SHAPES)
def test_geometry_equals_pillow(shape: tuple[int, int, int]) -> None:
    images = random_images(2, shape)
    for name in NAMES:
        for level in OPERATIONS[name].levels:
            assert_equals_pillow(images, name, level, fill=128)
            assert_equals_pillow(images, name, -level, fill=0)
    for angle in (0, 45, 90, 180, 270, 360, -45, -90, 12.5, 133):
        assert_equals_pillow(images, "rotate", angle, fill=0)


@given(
    matrix=st.lists(st.floats(-2, 2, allow_subnormal=False), min_size=4, max_size=4),
    offset=st.lists(st.floats(-9, 9, allow_subnormal=False), min_size=2, max_size=2),
)
def test_any_matrix_equals_pillow(matrix: list[float], offset: list[float]) -> None:
    images = random_images(1, (1, 9, 7))
    (a, b, d, e), (c, f) = matrix, offset
    assume(b or d)  # without shear Pillow computes in floating point, where ties between pixels may differ
    data = (a, b, c, d, e, f)
    ours = ops_geometry.affine(images, torch.tensor(data, dtype=torch.float64).view(1, 2, 3), fill=3)
    reference = by_pillow(
        images,
        lambda image: image.transform(image.size, Image.Transform.AFFINE, data, Image.Resampling.NEAREST, fillcolor=3),
    )
    assert torch.equal(ours, reference)


@pytest.mark.parametrize("name", NAMES)
def test_each_sample_gets_its_own_magnitude(name: str) -> None:
    operation, levels = getattr(ops_geometry, name), OPERATIONS[name].levels
    images = random_images(len(levels), (3, 11, 7))
    before = images.clone()
    together = operation(images, torch.tensor(levels, dtype=torch.float64), 9)
    alone = [operation(image[None], level, 9) for image, level in zip(images, levels, strict=True)]
    assert torch.equal(together, torch.cat(alone))
    assert torch.equal(images, before)

"""Colour operations and affine maps against Pillow, level for level (test_autoaugment tries every magnitude)."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageOps

from puridiver.augment import ops
from puridiver.augment.policies.autoaugment import OPERATIONS

from .samples import PILLOW_BLENDS_UNFUSED, SHAPES, by_pillow, random_images, telling_images

ENHANCEMENTS = {
    "brightness": ImageEnhance.Brightness,
    "colour": ImageEnhance.Color,
    "contrast": ImageEnhance.Contrast,
    "sharpness": ImageEnhance.Sharpness,
}
PLAIN = {"autocontrast": ImageOps.autocontrast, "equalise": ImageOps.equalize}
NEAREST = {"method": Image.Transform.AFFINE, "resample": Image.Resampling.NEAREST}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", PLAIN)
def test_operations_without_magnitude(name: str, shape: tuple[int, int, int]) -> None:
    images = telling_images(shape)
    assert torch.equal(getattr(ops, name)(images), by_pillow(images, PLAIN[name]))


@given(levels=st.lists(st.integers(0, 255), min_size=1, max_size=6), seed=st.integers(0, 10_000))
def test_histogram_operations_with_few_levels(levels: list[int], seed: int) -> None:
    palette = torch.tensor(levels, dtype=torch.uint8)
    images = palette[random_images(2, (1, 24, 24), seed).long() % len(levels)]
    for name in ("autocontrast", "equalise"):
        assert torch.equal(getattr(ops, name)(images), by_pillow(images, PLAIN[name]))


@given(
    name=st.sampled_from(sorted(ENHANCEMENTS)),
    factor=st.one_of(st.sampled_from([0.0, 1.0, 1.9]), st.floats(0, 3, allow_subnormal=False)),
    shape=st.sampled_from(SHAPES),
)
def test_enhancements(name: str, factor: float, shape: tuple[int, int, int]) -> None:
    images = telling_images(shape)
    ours = ops.enhance(images, factor, name)
    reference = by_pillow(images, lambda image: ENHANCEMENTS[name](image).enhance(factor))
    assert ours.dtype == torch.uint8
    assert (ours.int() - reference.int()).abs().max() <= (0 if PILLOW_BLENDS_UNFUSED else 1)
    if name == "colour" and shape[0] == 1:
        assert torch.equal(ours, images)


@given(
    matrix=st.lists(st.floats(-2, 2, allow_subnormal=False), min_size=4, max_size=4),
    offset=st.lists(st.floats(-9, 9, allow_subnormal=False), min_size=2, max_size=2),
)
def test_affine_matrices(matrix: list[float], offset: list[float]) -> None:
    images = random_images(1, (1, 9, 7))
    (a, b, d, e), (c, f) = matrix, offset
    assume(b or d)  # without shear Pillow computes in floating point, where ties between pixels may differ
    data = (a, b, c, d, e, f)
    ours = ops.affine(images, data, fill=3)
    assert torch.equal(
        ours, by_pillow(images, lambda image: image.transform(image.size, data=data, fillcolor=3, **NEAREST))
    )


@pytest.mark.parametrize("name", OPERATIONS)
def test_samples_are_independent(name: str) -> None:
    """Each sample gets its own magnitude, and none sees another."""
    operation = OPERATIONS[name]
    images, levels = random_images(10, (3, 11, 7)), torch.tensor(operation.levels, dtype=torch.float64)
    before = images.clone()
    together = operation.apply(images, levels, 9)
    alone = [operation.apply(images[i : i + 1], levels[i : i + 1], 9) for i in range(10)]
    assert torch.equal(together, torch.cat(alone))
    assert torch.equal(images, before)

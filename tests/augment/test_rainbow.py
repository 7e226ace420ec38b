"""Rainbow Memory's perturbations against Pillow and a loop over the cutouts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from PIL import Image, ImageOps
from torch import Tensor

from puridiver.augment.rainbow import CUTOUT_SIDES, draw_centres, perturbations

from .samples import SHAPES, assert_uniform, by_pillow, generator, random_images

BY_PILLOW: list[Callable[[Image.Image], Image.Image]] = [
    ImageOps.mirror,
    ImageOps.flip,
    lambda image: image.rotate(45),
    lambda image: image.rotate(90),
    ImageOps.invert,
    lambda image: ImageOps.solarize(image, 128),
    lambda image: ImageOps.solarize(image, 64),
    lambda image: ImageOps.solarize(image, 32),
]


def cutout_by_loop(image: Tensor, side: int, row: int, column: int) -> Tensor:
    _, height, width = image.shape
    tall, wide = (max(1, round(side * length / 32)) for length in (height, width))
    result = image.clone()
    for y in range(row - tall // 2, row - tall // 2 + tall):
        for x in range(column - wide // 2, column - wide // 2 + wide):
            if 0 <= y < height and 0 <= x < width:
                result[:, y, x] = 0
    return result


@pytest.mark.parametrize("shape", SHAPES)
def test_perturbations_equal_pillow_and_a_loop(shape: tuple[int, int, int]) -> None:
    images = random_images(6, shape)
    centres = draw_centres(6, *shape[1:], generator())
    copies = perturbations(images, centres)
    assert copies.shape == (12, *images.shape)
    for k, operation in enumerate(BY_PILLOW, start=len(CUTOUT_SIDES)):
        assert torch.equal(copies[k], by_pillow(images, operation)), k
    for k, side in enumerate(CUTOUT_SIDES):
        drawn = zip(images, *centres[:, :, k].tolist(), strict=True)
        expected = torch.stack([cutout_by_loop(image, side, row, column) for image, row, column in drawn])
        assert torch.equal(copies[k], expected)


def test_cutout_centres_are_uniform_over_the_image() -> None:
    row, column = draw_centres(4000, 5, 8, generator())
    assert_uniform(row, 5)
    assert_uniform(column, 8)

"""Rainbow Memory's perturbations against Pillow and against a loop over the cutouts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from PIL import Image, ImageOps
from torch import Tensor

from puridiver.augment import PERTURBATIONS, PerturbationDraw, draw_perturbations, perturbations

from .samples import SHAPES, assert_rows_independent, by_pillow, generator, random_images

BY_PILLOW: dict[str, Callable[[Image.Image], Image.Image]] = {
    "flip_horizontal": ImageOps.mirror,
    "flip_vertical": ImageOps.flip,
    "rotate_45": lambda image: image.rotate(45),
    "rotate_90": lambda image: image.rotate(90),
    "invert": ImageOps.invert,
    "solarise_128": lambda image: ImageOps.solarize(image, 128),
    "solarise_64": lambda image: ImageOps.solarize(image, 64),
    "solarise_32": lambda image: ImageOps.solarize(image, 32),
}


def perturbed(images: Tensor, seed: int = 0) -> tuple[Tensor, PerturbationDraw]:
    height, width = images.shape[2:]
    draw = draw_perturbations(len(images), height, width, generator(seed))
    return perturbations(images, draw), draw


def cutout_by_loop(image: Tensor, side: int, row: int, column: int) -> Tensor:
    _, height, width = image.shape
    tall, wide = round(side * height / 32), round(side * width / 32)
    result = image.clone()
    for y in range(row - tall // 2, row - tall // 2 + tall):
        for x in range(column - wide // 2, column - wide // 2 + wide):
            if 0 <= y < height and 0 <= x < width:
                result[:, y, x] = 0
    return result


@pytest.mark.parametrize("shape", SHAPES)
def test_copies_without_chance_equal_pillow(shape: tuple[int, int, int]) -> None:
    images = random_images(3, shape)
    copies, _ = perturbed(images)
    for name, operation in BY_PILLOW.items():
        assert torch.equal(copies[PERTURBATIONS.index(name)], by_pillow(images, operation)), name


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (3, 16, 8)])
def test_cutouts_equal_a_loop(shape: tuple[int, int, int]) -> None:
    images = random_images(3, shape)
    copies, draw = perturbed(images)
    for k, side in enumerate((8, 16, 24, 32)):
        expected = [
            cutout_by_loop(image, side, int(row), int(column))
            for image, row, column in zip(images, draw.row[:, k], draw.column[:, k], strict=True)
        ]
        assert torch.equal(copies[PERTURBATIONS.index(f"cutout_{side}")], torch.stack(expected))


def test_largest_cutout_at_the_centre_leaves_nothing() -> None:
    images = random_images(1, (3, 32, 32))
    centre = torch.full((1, 4), 16)
    copies = perturbations(images, PerturbationDraw(centre, centre))
    assert not copies[3].any()
    assert copies[2].any()


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_independent(shape: tuple[int, int, int]) -> None:
    draw = draw_perturbations(6, *shape[1:], generator())
    assert_rows_independent(perturbations, random_images(6, shape), draw, sample_dim=1)


def test_there_are_twelve_copies_in_the_order_of_their_names() -> None:
    copies, _ = perturbed(random_images(2, (1, 8, 8)))
    assert copies.shape == (12, 2, 1, 8, 8)
    assert len(set(PERTURBATIONS)) == 12


def test_cutout_centres_are_uniform_over_the_image() -> None:
    n, height, width = 4000, 5, 8
    draw = draw_perturbations(n, height, width, generator())
    for centres, length in ((draw.row, height), (draw.column, width)):
        counts = centres.flatten().bincount(minlength=length)
        total = 4 * n
        assert len(counts) == length
        assert (counts - total / length).abs().max() < 5 * (total / length * (1 - 1 / length)) ** 0.5


def test_wrong_arguments_say_what_is_allowed() -> None:
    draw = draw_perturbations(2, 8, 8, generator())
    with pytest.raises(ValueError, match="got 2 rows for 3 images"):
        perturbations(random_images(3, (3, 8, 8)), draw)
    with pytest.raises(ValueError, match="images should be uint8 of shape"):
        perturbations(torch.zeros(2, 3, 8, 8), draw)

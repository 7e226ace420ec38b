"""AutoAugment: its application against a loop over Pillow, and its draws."""

from __future__ import annotations

import math

import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from puridiver.augment import POLICIES
from puridiver.augment.policies.autoaugment import (
    CIFAR10_POLICY,
    AutoAugmentDraw,
    Step,
    autoaugment,
    draw_autoaugment,
)

from .samples import PILLOW_BLENDS_UNFUSED, assert_uniform, by_pillow, generator, random_images
from .samples import rows as row_of


def pillow_step(image: Image.Image, step: Step, sign: int, fill: int) -> Image.Image:
    """One step in Pillow, with the published ranges written out again."""
    level = step.magnitude / 9
    factor = 1 + sign * 0.9 * level
    shift = sign * level * 150 / 331
    width, height = image.size
    colour = fill if image.mode == "L" else (fill, fill, fill)

    def moved(*matrix: float) -> Image.Image:
        return image.transform(image.size, Image.Transform.AFFINE, matrix, fillcolor=colour)

    return {
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "brightness": lambda: ImageEnhance.Brightness(image).enhance(factor),
        "colour": lambda: ImageEnhance.Color(image).enhance(factor),
        "contrast": lambda: ImageEnhance.Contrast(image).enhance(factor),
        "equalise": lambda: ImageOps.equalize(image),
        "invert": lambda: ImageOps.invert(image),
        "posterise": lambda: ImageOps.posterize(image, 8 - round(4 * level)),
        "rotate": lambda: image.rotate(sign * 30 * level, fillcolor=colour),
        "sharpness": lambda: ImageEnhance.Sharpness(image).enhance(factor),
        "shear_y": lambda: moved(1, 0, 0, sign * 0.3 * level, 1, 0),
        "solarise": lambda: ImageOps.solarize(image, math.ceil(256 - 256 * level)),
        "translate_x": lambda: moved(1, 0, shift * width, 0, 1, 0),
        "translate_y": lambda: moved(1, 0, 0, 0, 1, shift * height),
    }[step.operation]()


def augment_by_pillow(image: Tensor, row: AutoAugmentDraw, fill: int) -> Tensor:
    def steps(picture: Image.Image) -> Image.Image:
        for index, step in enumerate(CIFAR10_POLICY[int(row.sub_policy)]):
            if row.applied[0, index]:
                picture = pillow_step(picture, step, int(row.sign[0, index]), fill)
        return picture

    return by_pillow(image, steps)


@pytest.mark.skipif(not PILLOW_BLENDS_UNFUSED, reason="a second step can widen a blend's difference of one")
@pytest.mark.parametrize(("shape", "fill"), [((3, 32, 32), 0), ((1, 8, 8), 128), ((3, 11, 7), 128)])
def test_every_choice_equals_pillow(shape: tuple[int, int, int], fill: int) -> None:
    """Each sub-policy with each of its steps on and off and with both signs."""
    rows = torch.cartesian_prod(torch.arange(25), torch.arange(2), torch.arange(2), torch.tensor([-1, 1]))
    draw = AutoAugmentDraw(rows[:, 0], rows[:, 1:3].bool(), rows[:, 3:].expand(-1, 2))
    images = random_images(len(rows), shape)
    ours = autoaugment(images, draw, fill)
    for i in range(len(rows)):
        reference = augment_by_pillow(images[i : i + 1], row_of(draw, slice(i, i + 1)), fill)
        assert torch.equal(ours[i : i + 1], reference), (i, CIFAR10_POLICY[int(draw.sub_policy[i])])


@pytest.mark.parametrize("both_ways", [True, False])
def test_rotations_alone_can_be_limited_to_one_direction(both_ways: bool) -> None:
    images = random_images(1, (3, 32, 32)).repeat(2, 1, 1, 1)
    for sub_policy, step, signed in ((1, 0, both_ways), (1, 1, True), (3, 0, True), (6, 1, True)):  # rotate is 1, 0
        applied = torch.zeros(2, 2, dtype=torch.bool)
        applied[:, step] = True
        draw = AutoAugmentDraw(torch.full((2,), sub_policy), applied, torch.tensor([[1, 1], [-1, -1]]))
        found = autoaugment(images, draw, rotates_both_ways=both_ways)
        assert torch.equal(found[0], found[1]) == (not signed)


def test_draws_follow_the_policys_probabilities() -> None:
    draw = draw_autoaugment(20_000, generator())
    assert_uniform(draw.sub_policy, 25)
    assert_uniform((draw.sign + 1) // 2, 2)
    for index, pair in enumerate(CIFAR10_POLICY):
        applied = draw.applied[draw.sub_policy == index]
        for column, step in enumerate(pair):
            deviation = (len(applied) * step.probability * (1 - step.probability)) ** 0.5
            assert abs(int(applied[:, column].sum()) - len(applied) * step.probability) <= 5 * deviation


def test_policies_are_their_draws() -> None:
    images = random_images(200, (3, 32, 32))
    draw = draw_autoaugment(200, generator(4))
    assert torch.equal(POLICIES["autoaugment"].apply(images, generator(4)), autoaugment(images, draw))
    released = autoaugment(images, draw, fill=128, rotates_both_ways=False)
    assert torch.equal(POLICIES["autoaugment_grey"].apply(images, generator(4)), released)
    assert POLICIES["none"].apply(images, generator(4)) is images
    assert autoaugment(images[:0], draw_autoaugment(0, generator())).shape == (0, 3, 32, 32)

"""AutoAugment: the policy, the chances of its draws, and its application against a loop over Pillow."""

from __future__ import annotations

import math

import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from puridiver.augment import CIFAR10_POLICY, AutoAugmentDraw, autoaugment, draw_autoaugment
from puridiver.augment.autoaugment import Step

from .samples import (
    PILLOW_BLENDS_UNFUSED,
    SHAPES,
    assert_rows_independent,
    by_pillow,
    generator,
    random_images,
)

# of each operation in the published table: steps, sum of probabilities, sum of magnitudes
PUBLISHED_TOTALS = {
    "autocontrast": (7, 5.0, 26),
    "brightness": (4, 2.3, 25),
    "colour": (5, 2.9, 27),
    "contrast": (2, 0.8, 13),
    "equalise": (9, 4.7, 41),
    "invert": (3, 0.2, 13),
    "posterise": (1, 0.3, 7),
    "rotate": (1, 0.7, 2),
    "sharpness": (5, 2.8, 24),
    "shear_y": (2, 0.7, 15),
    "solarise": (4, 1.9, 18),
    "translate_x": (2, 0.8, 17),
    "translate_y": (5, 3.4, 39),
}


def every_choice() -> AutoAugmentDraw:
    """Each sub-policy with each of its steps on and off and with both signs: 25 * 4 * 2 rows."""
    rows = torch.cartesian_prod(torch.arange(25), torch.arange(2), torch.arange(2), torch.tensor([-1, 1]))
    return AutoAugmentDraw(rows[:, 0], rows[:, 1:3].bool(), rows[:, 3:].expand(-1, 2))


def pillow_step(image: Image.Image, step: Step, sign: int, fill: int) -> Image.Image:
    """One step in Pillow's words, with the ranges of the publication written out anew."""
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
        "shear_x": lambda: moved(1, sign * 0.3 * level, 0, 0, 1, 0),
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
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (3, 11, 7)])
@pytest.mark.parametrize("fill", [0, 128])
def test_every_choice_equals_pillow(shape: tuple[int, int, int], fill: int) -> None:
    draw = every_choice()
    images = random_images(len(draw), shape)
    ours = autoaugment(images, draw, fill)
    for i in range(len(draw)):
        reference = augment_by_pillow(images[i : i + 1], draw.rows(slice(i, i + 1)), fill)
        assert torch.equal(ours[i : i + 1], reference), (i, CIFAR10_POLICY[int(draw.sub_policy[i])])


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_independent(shape: tuple[int, int, int]) -> None:
    assert_rows_independent(autoaugment, random_images(60, shape), draw_autoaugment(60, generator()))


def test_nothing_applied_gives_the_same_images_in_new_memory() -> None:
    images = random_images(25, (3, 8, 8))
    draw = AutoAugmentDraw(torch.arange(25), torch.zeros(25, 2, dtype=torch.bool), torch.ones(25, 2).long())
    result = autoaugment(images, draw)
    assert torch.equal(result, images)
    assert result.data_ptr() != images.data_ptr()


def test_policy_is_the_published_one() -> None:
    assert len(CIFAR10_POLICY) == 25
    assert all(len(pair) == 2 for pair in CIFAR10_POLICY)
    steps = [step for pair in CIFAR10_POLICY for step in pair]
    for name, totals in PUBLISHED_TOTALS.items():
        chosen = [step for step in steps if step.operation == name]
        probability = round(sum(step.probability for step in chosen), 6)
        assert (len(chosen), probability, sum(step.magnitude for step in chosen)) == totals, name
    assert {step.operation for step in steps} == set(PUBLISHED_TOTALS)


def test_sub_policies_are_equally_likely() -> None:
    n = 20_000
    counts = draw_autoaugment(n, generator()).sub_policy.bincount(minlength=25)
    assert len(counts) == 25
    assert (counts - n / 25).abs().max() < 5 * (n / 25 * (24 / 25)) ** 0.5


def test_steps_are_applied_with_their_probabilities() -> None:
    draw = draw_autoaugment(20_000, generator())
    for index, pair in enumerate(CIFAR10_POLICY):
        applied = draw.applied[draw.sub_policy == index]
        for column, step in enumerate(pair):
            deviation = (len(applied) * step.probability * (1 - step.probability)) ** 0.5
            assert abs(int(applied[:, column].sum()) - len(applied) * step.probability) <= 5 * deviation


def test_signs_are_fair() -> None:
    n = 10_000
    sign = draw_autoaugment(n, generator()).sign
    assert set(sign.unique().tolist()) == {-1, 1}
    assert sign.sum(0).abs().max() < 5 * n**0.5


def test_same_generator_state_gives_the_same_images() -> None:
    images = random_images(30, (3, 8, 8))
    first, again, other = (autoaugment(images, draw_autoaugment(30, generator(s))) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_empty_batch_stays_empty() -> None:
    empty = torch.zeros(0, 3, 8, 8, dtype=torch.uint8)
    assert autoaugment(empty, draw_autoaugment(0, generator())).shape == empty.shape


def test_wrong_arguments_say_what_is_allowed() -> None:
    images = random_images(2, (3, 8, 8))
    draw = draw_autoaugment(2, generator())
    with pytest.raises(ValueError, match="fill should be a grey level from 0 to 255, but got 256"):
        autoaugment(images, draw, fill=256)
    with pytest.raises(ValueError, match="got 2 rows for 1 images"):
        autoaugment(images[:1], draw)
    with pytest.raises(ValueError, match="images should be uint8 of shape"):
        autoaugment(images.float(), draw)

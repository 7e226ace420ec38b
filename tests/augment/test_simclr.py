"""SimCLR's views: what they show, that a batch is its samples, and that colour and crop do what they say."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from puridiver.augment import SimCLRDraw, draw_simclr, simclr_view
from puridiver.augment.ops_colour import _luma
from puridiver.augment.simclr import resized_crop, turn_hue
from tests.augment.samples import SHAPES, generator, random_images


def unchanged(n: int) -> SimCLRDraw:
    """A draw that leaves every image as it is."""
    ones, zeros, no = torch.ones(n), torch.zeros(n), torch.zeros(n, dtype=torch.bool)
    return SimCLRDraw(ones, ones, zeros, zeros, no, ones, ones, ones, zeros, no)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_whole_image_without_change_of_colour_is_the_image(shape: tuple[int, int, int]) -> None:
    images = random_images(5, shape)
    assert (simclr_view(images, unchanged(5)).int() - images.int()).abs().max() <= 1  # hue goes by way of floats


def test_a_flip_mirrors_and_a_quarter_is_enlarged() -> None:
    images = random_images(1, (3, 8, 8))
    mirrored = dataclasses.replace(unchanged(1), flip=torch.tensor([True]))
    assert torch.equal(resized_crop(images, mirrored), images.flip(3))
    half, corner = torch.tensor([0.5]), torch.tensor([-0.5])
    draw = dataclasses.replace(unchanged(1), width=half, height=half, x=corner, y=corner)
    blocks = torch.zeros(1, 1, 8, 8, dtype=torch.uint8)
    blocks[..., :4, :4] = 200
    assert (resized_crop(blocks, draw)[..., :7, :7] == 200).all()  # the upper left quarter, up to its blurred edge


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_batch_gives_what_its_samples_alone_would_give(shape: tuple[int, int, int]) -> None:
    images = random_images(6, shape)
    draw = draw_simclr(6, 0.3, True, generator(1))
    together = simclr_view(images, draw)
    assert together.shape == images.shape
    assert together.dtype == torch.uint8
    for i in range(6):
        alone = simclr_view(images[i : i + 1], draw.rows(slice(i, i + 1)))
        assert torch.equal(together[i : i + 1], alone)


def test_crops_lie_in_the_image_and_cover_what_was_asked_for() -> None:
    draw = draw_simclr(4000, 0.25, False, generator())
    for size, centre in ((draw.width, draw.x), (draw.height, draw.y)):
        assert (size <= 1).all()
        assert (centre.abs() + size <= 1 + 1e-6).all()
    area = draw.width * draw.height
    assert 0.18 < float(area.min()) < 0.27  # a side that is cut to the image makes the crop smaller
    assert float(area.max()) > 0.9
    assert not draw.flip.any()


def test_how_often_colours_change() -> None:
    draw = draw_simclr(4000, 0.2, True, generator())
    assert float((draw.brightness != 1).float().mean()) == pytest.approx(0.8, abs=0.03)
    assert float(draw.grey.float().mean()) == pytest.approx(0.2, abs=0.03)
    assert float(draw.flip.float().mean()) == pytest.approx(0.5, abs=0.03)
    for factor in (draw.brightness, draw.contrast, draw.saturation):
        assert 0.6 <= float(factor.min()) < 0.65 < 1.35 < float(factor.max()) <= 1.4
    assert 0.09 < float(draw.hue.abs().max()) <= 0.1


def test_a_turn_of_hue_changes_colour_and_keeps_luma() -> None:
    red = torch.tensor([150, 60, 60], dtype=torch.uint8).view(1, 3, 1, 1).expand(1, 3, 4, 4).contiguous()
    turned = turn_hue(red, torch.tensor([1 / 3]))
    assert turned[0, :, 0, 0].argmax() != 0
    assert abs(int(_luma(turned)[0, 0, 0, 0]) - int(_luma(red)[0, 0, 0, 0])) <= 2
    assert (turn_hue(red, torch.tensor([1.0])).int() - red.int()).abs().max() <= 1


def test_grey_views_have_no_colour() -> None:
    images = random_images(4, (3, 16, 16))
    draw = dataclasses.replace(unchanged(4), grey=torch.tensor([True, False, True, False]))
    view = simclr_view(images, draw)
    spread: Tensor = view.amax(dim=1).int() - view.amin(dim=1).int()
    assert [bool(part.any()) for part in spread] == [False, True, False, True]


def test_the_input_is_left_alone_and_bad_input_refused() -> None:
    images = random_images(3, (3, 8, 8))
    before = images.clone()
    simclr_view(images, draw_simclr(3, 0.2, True, generator()))
    assert torch.equal(images, before)
    with pytest.raises(ValueError, match=r"share of the image in \(0, 1\], but got 0"):
        draw_simclr(3, 0.0, True, generator())
    with pytest.raises(ValueError, match="one row per image, but got 2 rows for 3"):
        simclr_view(images, draw_simclr(2, 0.2, True, generator()))

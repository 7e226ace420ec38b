"""SimCLR's views: crops, flips and colour changes do what their draw says."""

from __future__ import annotations

import pytest
import torch

from puridiver.augment.ops import luma
from puridiver.spr.simclr import SimCLRDraw, draw_simclr, resized_crop, simclr_view, turn_hue
from tests.augment.samples import SHAPES, generator, random_images, rows


def unchanged(n: int) -> SimCLRDraw:
    """A draw that leaves every image unchanged."""
    ones, zeros, no = torch.ones(n), torch.zeros(n), torch.zeros(n, dtype=torch.bool)
    return SimCLRDraw(ones, ones, zeros, zeros, no, ones, ones, ones, zeros, no)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows_are_independent_and_an_empty_change_changes_nothing(shape: tuple[int, int, int]) -> None:
    images = random_images(6, shape)
    before, draw = images.clone(), draw_simclr(6, 0.3, True, generator(1))
    alone = [simclr_view(images[i : i + 1], rows(draw, slice(i, i + 1))) for i in range(6)]
    assert torch.equal(simclr_view(images, draw), torch.cat(alone))
    assert torch.equal(images, before)
    assert (simclr_view(images, unchanged(6)).int() - images.int()).abs().max() <= 1  # hue is computed in floats


def test_a_flip_mirrors_and_a_crop_is_enlarged() -> None:
    images = random_images(1, (3, 8, 8))
    mirrored = unchanged(1)._replace(flip=torch.tensor([True]))
    assert torch.equal(resized_crop(images, mirrored), images.flip(3))
    half, corner = torch.tensor([0.5]), torch.tensor([-0.5])
    draw = unchanged(1)._replace(width=half, height=half, x=corner, y=corner)
    blocks = torch.zeros(1, 1, 8, 8, dtype=torch.uint8)
    blocks[..., :4, :4] = 200
    assert (resized_crop(blocks, draw)[..., :7, :7] == 200).all()  # the upper left quarter, up to its blurred edge


def test_crops_and_colour_changes_have_their_ranges() -> None:
    draw = draw_simclr(4000, 0.25, True, generator())
    for size, centre in ((draw.width, draw.x), (draw.height, draw.y)):
        assert (size <= 1).all()
        assert (centre.abs() + size <= 1 + 1e-6).all()
    area = draw.width * draw.height
    assert 0.18 < float(area.min()) < 0.27  # a side that is cut at the border makes the crop smaller
    assert float(area.max()) > 0.9
    for chosen, share in ((draw.brightness != 1, 0.8), (draw.grey, 0.2), (draw.flip, 0.5)):
        assert float(chosen.float().mean()) == pytest.approx(share, abs=0.03)
    for factor in (draw.brightness, draw.contrast, draw.saturation):
        assert 0.6 <= float(factor.min()) < 0.65 < 1.35 < float(factor.max()) <= 1.4
    assert 0.09 < float(draw.hue.abs().max()) <= 0.1
    assert not draw_simclr(50, 0.25, False, generator()).flip.any()


def test_a_turn_of_hue_changes_colour_and_keepsluma() -> None:
    red = torch.tensor([150, 60, 60], dtype=torch.uint8).view(1, 3, 1, 1).expand(1, 3, 4, 4).contiguous()
    turned = turn_hue(red, torch.tensor([1 / 3]))
    assert turned[0, :, 0, 0].argmax() != 0
    assert abs(int(luma(turned)[0, 0, 0, 0]) - int(luma(red)[0, 0, 0, 0])) <= 2
    assert (turn_hue(red, torch.tensor([1.0])).int() - red.int()).abs().max() <= 1


def test_grey_views_have_no_colour() -> None:
    draw = unchanged(4)._replace(grey=torch.tensor([True, False, True, False]))
    view = simclr_view(random_images(4, (3, 16, 16)), draw)
    spread = view.amax(dim=1).int() - view.amin(dim=1).int()
    assert [bool(part.any()) for part in spread] == [False, True, False, True]

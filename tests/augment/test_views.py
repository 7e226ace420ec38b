"""The weak and strong view that trainers use, and the normalisation of their images."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import puridiver.augment
from puridiver.augment import (
    AutoAugmentDraw,
    ViewSettings,
    autoaugment,
    crop_flip,
    crop_flip_view,
    draw_autoaugment,
    draw_crop_flip,
    draw_cutmix,
    draw_mixup,
    draw_perturbations,
    mix,
    perturbations,
    strong_view,
    to_float,
    weak_view,
)
from puridiver.augment.cutmix import cutmix

from .samples import SHAPES, generator, random_images


def test_strong_view_is_crop_flip_and_autoaugment() -> None:
    images = random_images(40, (3, 32, 32))
    source = generator(4)
    moved = crop_flip(images, draw_crop_flip(40, 4, True, source))
    expected = autoaugment(moved, draw_autoaugment(40, source))
    assert torch.equal(strong_view(images, ViewSettings(), generator(4)), expected)


def test_strong_view_without_policy_is_crop_and_flip() -> None:
    images = random_images(40, (3, 32, 32))
    expected = crop_flip(images, draw_crop_flip(40, 2, False, generator(4)))
    settings = ViewSettings(crop_padding=2, flip=False, strong="none")
    assert torch.equal(strong_view(images, settings, generator(4)), expected)
    assert torch.equal(crop_flip_view(images, replace(settings, strong="autoaugment"), generator(4)), expected)


def test_with_grey_edges_autoaugment_draws_the_same_and_brings_in_grey() -> None:
    images = torch.full((400, 3, 32, 32), 200, dtype=torch.uint8)
    black, grey = (
        strong_view(images, ViewSettings(crop_padding=0, strong=strong), generator(4))
        for strong in ("autoaugment", "autoaugment_grey")
    )
    source = generator(4)
    moved = crop_flip(images, draw_crop_flip(400, 0, True, source))
    draw = draw_autoaugment(400, source)
    assert torch.equal(grey, autoaugment(moved, draw, fill=128, rotates_both_ways=False))
    unlike = (black != grey).flatten(1).any(1)
    assert unlike.any()
    assert not unlike.all()
    geometric = [r for r in range(400) if (grey[r] == 128).any() and not (black[r] == 128).any()]
    assert geometric  # even images have no grey of their own: it came in where black did
    assert all((black[r] == 0).any() for r in geometric)


@pytest.mark.parametrize("both_ways", [True, False])
def test_rotations_go_one_way_if_asked_for_and_nothing_else_does(both_ways: bool) -> None:
    images = random_images(2, (3, 32, 32))
    for sub_policy, step, signed in ((1, 0, both_ways), (1, 1, True), (3, 0, True), (6, 1, True)):  # rotate is 1, 0
        applied = torch.zeros(2, 2, dtype=torch.bool)
        applied[:, step] = True
        draw = AutoAugmentDraw(torch.full((2,), sub_policy), applied, torch.tensor([[1, 1], [-1, -1]]))
        found = autoaugment(images[:1].repeat(2, 1, 1, 1), draw, rotates_both_ways=both_ways)
        assert torch.equal(found[0], found[1]) == (not signed)


@pytest.mark.parametrize("shape", SHAPES)
def test_weak_view_mirrors_about_half_and_changes_nothing_else(shape: tuple[int, int, int]) -> None:
    images = random_images(200, shape)
    view = weak_view(images, ViewSettings(), generator())
    mirrored = (view == images.flip(3)).flatten(1).all(1)
    unchanged = (view == images).flatten(1).all(1)
    assert torch.equal(mirrored, ~unchanged)
    assert 60 < int(mirrored.sum()) < 140


def test_weak_view_without_flip_moves_by_the_padding_instead() -> None:
    images = random_images(50, (1, 8, 8))
    settings = ViewSettings(crop_padding=1, flip=False)
    view = weak_view(images, settings, generator(2))
    assert torch.equal(view, crop_flip(images, draw_crop_flip(50, 1, False, generator(2))))
    assert not torch.equal(view, images)


def test_weak_view_may_crop_as_well() -> None:
    images = random_images(50, (3, 32, 32))
    view = weak_view(images, ViewSettings(weak="crop_flip"), generator(2))
    assert torch.equal(view, crop_flip(images, draw_crop_flip(50, 4, True, generator(2))))


def test_views_leave_their_input_alone() -> None:
    images = random_images(50, (3, 8, 8))
    before = images.clone()
    strong_view(images, ViewSettings(), generator()).zero_()
    weak_view(images, ViewSettings(), generator()).zero_()
    assert torch.equal(images, before)


def test_to_float_normalises_each_channel() -> None:
    images = random_images(4, (3, 5, 6))
    mean, std = (0.5, 0.4, 0.3), (0.25, 0.2, 0.1)
    normalised = to_float(images, mean, std)
    assert normalised.dtype == torch.float32
    for channel in range(3):
        expected = (images[:, channel].double() / 255 - mean[channel]) / std[channel]
        torch.testing.assert_close(normalised[:, channel].double(), expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(to_float(images, torch.tensor(mean), torch.tensor(std)), normalised)


def test_wrong_arguments_say_what_is_allowed() -> None:
    with pytest.raises(ValueError, match="'autoaugment_grey' or 'none', but got 'cutout'"):
        ViewSettings(strong="cutout")
    with pytest.raises(ValueError, match="weak should be 'flip' or 'crop_flip', but got 'none'"):
        ViewSettings(weak="none")
    with pytest.raises(ValueError, match="crop_padding should be 0 or more pixels, but got -1"):
        ViewSettings(crop_padding=-1)
    with pytest.raises(ValueError, match="each of the 1 channels"):
        to_float(random_images(2, (1, 8, 8)), (0.5, 0.5, 0.5), (1.0, 1.0, 1.0))
    with pytest.raises(ValueError, match="images should be uint8 of shape"):
        strong_view(torch.zeros(2, 3, 8, 8), ViewSettings(), generator())


def test_public_names_are_sorted_and_there() -> None:
    names = puridiver.augment.__all__
    assert names == sorted(names, key=lambda name: (name.islower(), not name.isupper(), name))
    assert all(hasattr(puridiver.augment, name) for name in names)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("shape", SHAPES)
def test_cpu_and_gpu_give_the_same_images(shape: tuple[int, int, int]) -> None:
    images = random_images(300, shape)
    on_gpu = images.cuda()
    for view in (strong_view, weak_view):
        assert torch.equal(view(on_gpu, ViewSettings(), generator()).cpu(), view(images, ViewSettings(), generator()))
    draw = draw_perturbations(300, *shape[1:], generator())
    assert torch.equal(perturbations(on_gpu, draw).cpu(), perturbations(images, draw))
    box = draw_cutmix(300, *shape[1:], 1.0, generator())
    assert torch.equal(cutmix(on_gpu, box).cpu(), cutmix(images, box))
    blend = draw_mixup(300, 1.0, generator())
    torch.testing.assert_close(mix(on_gpu.float(), blend).cpu(), mix(images.float(), blend))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_views_do_not_wait_for_the_gpu() -> None:
    images = random_images(300, (3, 32, 32)).cuda()
    torch.cuda.set_sync_debug_mode("error")
    try:
        to_float(strong_view(images, ViewSettings(), generator()), (0.5,) * 3, (0.2,) * 3)
        weak_view(images, ViewSettings(), generator())
    finally:
        torch.cuda.set_sync_debug_mode("default")

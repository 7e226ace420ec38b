"""The weak and strong view that trainers use, and the scaling of images."""

from __future__ import annotations

import pytest
import torch

from puridiver.augment import ViewSettings, crop_flip, crop_flip_view, draw_crop_flip, strong_view, to_float, weak_view
from puridiver.augment.policies.autoaugment import autoaugment, draw_autoaugment
from puridiver.augment.rainbow import draw_perturbations, perturbations

from .samples import SHAPES, generator, random_images


@pytest.mark.parametrize("strong", ["autoaugment", "autoaugment_grey", "none"])
def test_the_strong_view_is_crop_flip_and_the_policy(strong: str) -> None:
    images = random_images(200, (3, 32, 32))
    before = images.clone()
    source = generator(4)
    expected = crop_flip(images, draw_crop_flip(200, 2, False, source))
    settings = ViewSettings(crop_padding=2, flip=False, strong=strong)
    assert torch.equal(crop_flip_view(images, settings, generator(4)), expected)
    if strong != "none":
        how = {"fill": 128, "rotates_both_ways": False} if strong == "autoaugment_grey" else {}
        expected = autoaugment(expected, draw_autoaugment(200, source), **how)
    view = strong_view(images, settings, generator(4))
    assert torch.equal(view, expected)
    view.zero_()
    assert torch.equal(images, before)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_weak_view_mirrors_about_half(shape: tuple[int, int, int]) -> None:
    images = random_images(200, shape)
    view = weak_view(images, ViewSettings(), generator())
    mirrored = (view == images.flip(3)).flatten(1).all(1)
    assert torch.equal(mirrored, ~(view == images).flatten(1).all(1))
    assert 60 < int(mirrored.sum()) < 140


@pytest.mark.parametrize("settings", [ViewSettings(1, False), ViewSettings(4, True, weak="crop_flip")])
def test_the_weak_view_crops_without_flips_or_if_told(settings: ViewSettings) -> None:
    images = random_images(50, (1, 8, 8))
    expected = crop_flip(images, draw_crop_flip(50, settings.crop_padding, settings.flip, generator(2)))
    assert torch.equal(weak_view(images, settings, generator(2)), expected)


def test_to_float_scales_grey_levels() -> None:
    images = random_images(4, (3, 5, 6))
    expected = (images.double() / 255 - 0.5) / 0.25
    torch.testing.assert_close(to_float(images), expected.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", SHAPES)
def test_cpu_and_gpu_give_the_same_images(shape: tuple[int, int, int]) -> None:
    images = random_images(300, shape)
    on_gpu = images.cuda()
    for view in (strong_view, weak_view):
        assert torch.equal(view(on_gpu, ViewSettings(), generator()).cpu(), view(images, ViewSettings(), generator()))
    draw = draw_perturbations(300, *shape[1:], generator())
    assert torch.equal(perturbations(on_gpu, draw).cpu(), perturbations(images, draw))


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_views_do_not_wait_for_the_gpu() -> None:
    images = random_images(300, (3, 32, 32)).cuda()
    torch.cuda.set_sync_debug_mode("error")
    try:
        to_float(strong_view(images, ViewSettings(), generator()))
        weak_view(images, ViewSettings(), generator())
    finally:
        torch.cuda.set_sync_debug_mode("default")

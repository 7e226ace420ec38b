"""SimCLR: views, the loss against a naive loop, and that an encoder learns and draws from its generator alone."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from puridiver.augment.ops import luma
from puridiver.runtime.model import TrainableModel
from puridiver.spr import nt_xent, scaled_epochs
from puridiver.spr.simclr import resized_crop, simclr_view, turn_hue
from tests.augment.samples import SHAPES, random_images
from tests.learner_samples import as_samples, patterns, seeded
from tests.memory.fakes import encoder

IMAGES = as_samples(*patterns(24)).images


# Views -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_views_are_drawn_from_the_generator(shape: tuple[int, int, int]) -> None:
    images = random_images(6, shape)
    before, view = images.clone(), simclr_view(images, 0.3, True, seeded(1))
    assert view.shape == images.shape
    assert torch.equal(view, simclr_view(images, 0.3, True, seeded(1)))
    assert not torch.equal(view, simclr_view(images, 0.3, True, seeded(2)))
    assert torch.equal(images, before)


def test_a_negative_width_mirrors_and_a_crop_is_enlarged() -> None:
    images, one, none = random_images(1, (3, 8, 8)), torch.ones(1), torch.zeros(1)
    assert torch.equal(resized_crop(images, -one, one, none, none), images.flip(3))
    blocks = torch.zeros(1, 1, 8, 8, dtype=torch.uint8)
    blocks[..., :4, :4] = 200
    quarter = resized_crop(blocks, one / 2, one / 2, -one / 2, -one / 2)
    assert (quarter[..., :7, :7] == 200).all()  # the upper left quarter, up to its blurred edge


def test_views_are_grey_mirrored_and_cropped_as_often_as_published() -> None:
    views = simclr_view(random_images(1, (3, 8, 8)).repeat(2000, 1, 1, 1), 0.25, True, seeded())
    grey = (views.amax(dim=1) == views.amin(dim=1)).flatten(1).all(dim=1)
    assert float(grey.float().mean()) == pytest.approx(0.2, abs=0.03)
    ramp = torch.arange(0, 256, 8, dtype=torch.uint8).expand(2000, 1, 32, 32)
    for flip, share in ((True, 0.5), (False, 0.0)):
        views = simclr_view(ramp, 0.25, flip, seeded()).float()
        rise = (views[..., -1] - views[..., 0]).mean(dim=(1, 2))
        assert float((rise < 0).float().mean()) == pytest.approx(share, abs=0.04)
        assert rise.abs().min() < 120 < 200 < rise.abs().max()


def test_a_turn_of_hue_changes_colour_and_keeps_luma() -> None:
    red = torch.tensor([150, 60, 60], dtype=torch.uint8).view(1, 3, 1, 1).expand(1, 3, 4, 4).contiguous()
    turned = turn_hue(red, torch.tensor([1 / 3]))
    assert turned[0, :, 0, 0].argmax() != 0
    assert abs(int(luma(turned)[0, 0, 0, 0]) - int(luma(red)[0, 0, 0, 0])) <= 2
    assert (turn_hue(red, torch.tensor([1.0])).int() - red.int()).abs().max() <= 1


# The encoder -------------------------------------------------------------------------------------------------------


def naive_nt_xent(first: Tensor, second: Tensor, temperature: float) -> float:
    z = [v / v.norm() for v in (*first, *second)]
    n, total = len(first), 0.0
    for i in range(2 * n):
        others = sum(math.exp(float(z[i] @ z[k]) / temperature) for k in range(2 * n) if k != i)
        total -= math.log(math.exp(float(z[i] @ z[(i + n) % (2 * n)]) / temperature) / others)
    return total / (2 * n)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_nt_xent_is_the_naive_loop(n: int) -> None:
    first, second = torch.randn(2, n, 5, generator=seeded())
    assert float(nt_xent(first, second, 0.5)) == pytest.approx(naive_nt_xent(first, second, 0.5), abs=1e-5)


@pytest.mark.parametrize(("published", "budget", "epochs"), [(4000, 1, 4000), (4000, 0.005, 20), (3000, 1e-6, 1)])
def test_the_budget_scales_the_published_epochs(published: int, budget: float, epochs: int) -> None:
    assert scaled_epochs(published, budget) == epochs
    assert scaled_epochs(0, budget) == scaled_epochs(published, 0) == 0


def test_it_learns_which_views_belong_together() -> None:
    enc = encoder(spr_lr=3e-3, spr_crop=0.5)
    enc.restart(seeded())

    def partner_loss() -> float:
        """Of views that were not trained on."""
        views = simclr_view(IMAGES.repeat(2, 1, 1, 1), 0.5, False, seeded(9))
        return float(nt_xent(*enc.projections(views).chunk(2), 0.5))

    before = partner_loss()
    enc.learn(IMAGES, 30, seeded())
    assert partner_loss() < before - 0.3


def test_the_generator_alone_decides_and_a_restart_leaves_nothing_behind() -> None:
    used, new = encoder(), encoder()
    used.restart(seeded(5))
    used.learn(IMAGES, 3, seeded(5))
    before = torch.get_rng_state()
    for enc in (used, new):
        generator = seeded(1)
        enc.restart(generator)
        enc.learn(IMAGES, 3, generator)
    assert torch.equal(before, torch.get_rng_state())
    first, second = used.network.state_dict(), new.network.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(("n", "batch", "epochs", "steps"), [(24, 500, 3, 3), (24, 10, 3, 6), (1, 500, 2, 2)])
def test_an_epoch_shows_both_views_of_each_image_in_batches(monkeypatch, n, batch, epochs, steps) -> None:
    sizes: list[int] = []
    original = TrainableModel.logits
    monkeypatch.setattr(TrainableModel, "logits", lambda self, x: sizes.append(len(x)) or original(self, x))
    enc = encoder(spr_batch=batch)
    enc.restart(seeded())
    enc.learn(IMAGES[:n], epochs, seeded())
    assert sizes == [2 * min(n, batch)] * steps

"""SimCLR: its loss against a naive loop, and that an encoder learns, restarts and draws from its generator alone."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from puridiver.runtime.model import TrainableModel
from puridiver.spr import nt_xent, scaled_epochs
from puridiver.spr.simclr import draw_simclr, simclr_view
from tests.learner_samples import as_samples, patterns
from tests.memory.fakes import encoder

IMAGES = as_samples(*patterns(24)).images


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


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


def partner_loss(enc, seed: int = 9) -> float:
    """The loss on views that were not trained on."""

    draw = draw_simclr(2 * len(IMAGES), 0.5, False, seeded(seed))
    z = enc.projections(simclr_view(IMAGES.repeat(2, 1, 1, 1), draw))
    return float(nt_xent(*z.chunk(2), 0.5))


def test_it_learns_which_views_belong_together() -> None:
    enc = encoder(spr_lr=3e-3, spr_crop=0.5)
    enc.restart(seeded())
    before = partner_loss(enc)
    enc.learn(IMAGES, 30, seeded())
    assert partner_loss(enc) < before - 0.3


def weights(enc) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in enc.network.state_dict().items()}


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
    first, second = weights(used), weights(new)
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(("n", "batch", "epochs", "steps"), [(24, 500, 3, 3), (24, 10, 3, 6), (1, 500, 2, 2)])
def test_an_epoch_shows_both_views_of_each_image_in_batches(monkeypatch, n, batch, epochs, steps) -> None:
    sizes: list[int] = []
    original = TrainableModel.logits

    def counted(self: TrainableModel, x: Tensor) -> Tensor:
        sizes.append(len(x))
        return original(self, x)

    monkeypatch.setattr(TrainableModel, "logits", counted)
    enc = encoder(spr_batch=batch)
    enc.restart(seeded())
    enc.learn(IMAGES[:n], epochs, seeded())
    assert sizes == [2 * min(n, batch)] * steps

"""Learning rates of memory training against torch's schedulers, and fresh optimisers."""

from __future__ import annotations

import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, CosineAnnealingWarmRestarts, LRScheduler

from puridiver.trainers import StreamBatch, Trainer
from puridiver.trainers.schedule import cosine, lows, warm_restarts
from tests.learner_samples import as_samples, patterns, tiny_trainer
from tests.trainers.samples import ONLINE, consolidate

MEMORY = as_samples(*patterns(24))


def annealing(optimiser: torch.optim.Optimizer, epochs: int, lr: float) -> LRScheduler:
    return CosineAnnealingLR(optimiser, T_max=epochs)


def restarting(optimiser: torch.optim.Optimizer, epochs: int, lr: float) -> LRScheduler:
    return CosineAnnealingWarmRestarts(optimiser, T_0=1, T_mult=2, eta_min=0.01 * lr)


@pytest.mark.parametrize(("ours", "torchs"), [(cosine, annealing), (warm_restarts, restarting)])
@pytest.mark.parametrize(("epochs", "lr"), [(255, 0.05), (10, 1.0), (1, 0.3)])
def test_rates_are_those_of_torchs_schedulers(ours, torchs, epochs: int, lr: float) -> None:
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    scheduler = torchs(optimiser, epochs, lr)
    for epoch in range(epochs):
        assert ours(epoch, epochs, lr) == pytest.approx(optimiser.param_groups[0]["lr"], abs=1e-9)
        optimiser.step()
        scheduler.step()


def test_warm_restarts_are_low_after_whole_periods() -> None:
    # The first period, of one epoch, has no lower rate than the next begins at.
    assert lows(lambda epoch, epochs: warm_restarts(epoch, epochs, 0.05), 70) == [3, 7, 15, 31, 63, 70]


def momentum(trainer: Trainer) -> list[str]:
    """Buffers of SGD or Adam that hold something."""
    return [key for key, value in trainer.state().items() if key.startswith(("momentum", "exp_avg")) and value.any()]


@pytest.mark.parametrize("name", ONLINE)
def test_every_optimiser_starts_afresh_and_follows_the_schedule(name, monkeypatch):
    """Momentum gathered on the stream must not push the first memory step."""
    trainer = tiny_trainer(name, lr=0.05, schedule="warm_restarts", baseline_warmup=2, online_lr=0.003)
    trainer.observe(StreamBatch(MEMORY.images, MEMORY.labels))
    assert momentum(trainer)
    found: list[float] = []

    def epoch(memory, epoch) -> None:
        assert epoch or not momentum(trainer)
        found.extend(float(model.rate) for model in trainer.models)

    monkeypatch.setattr(trainer, "memory_epoch", epoch)
    consolidate(trainer, MEMORY, 8)
    assert found == pytest.approx([warm_restarts(e, 8, 0.05) for e in range(8) for _ in trainer.models])
    assert [float(model.rate) for model in trainer.models] == pytest.approx([0.003] * trainer.n_networks)

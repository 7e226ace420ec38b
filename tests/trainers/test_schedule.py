"""Learning rates of memory training against torch's schedulers."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, CosineAnnealingWarmRestarts, LRScheduler

from puridiver.trainers.schedule import cosine, ends_low, lows, warm_restarts


def rates_of(make: Callable[[torch.optim.Optimizer], LRScheduler], epochs: int, lr: float) -> list[float]:
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    scheduler, rates = make(optimiser), []
    for _ in range(epochs):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step()
    return rates


@pytest.mark.parametrize(("epochs", "lr"), [(256, 0.05), (128, 0.05), (10, 1.0), (1, 0.3)])
def test_cosine_is_cosine_annealing_to_zero(epochs: int, lr: float) -> None:
    expected = rates_of(lambda o: CosineAnnealingLR(o, T_max=epochs), epochs, lr)
    assert [cosine(e, epochs, lr) for e in range(epochs)] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("epochs", "lr"), [(255, 0.05), (127, 0.05), (20, 1.0)])
def test_warm_restarts_double_their_period_and_end_each_near_one_percent(epochs: int, lr: float) -> None:
    expected = rates_of(lambda o: CosineAnnealingWarmRestarts(o, T_0=1, T_mult=2, eta_min=0.01 * lr), epochs, lr)
    assert [warm_restarts(e, epochs, lr) for e in range(epochs)] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("epochs", range(1, 70))
def test_warm_restarts_end_low_where_it_is_said(epochs: int) -> None:
    """At the end of a whole period the next epoch would be at the full rate again."""
    assert ends_low(epochs) == math.isclose(warm_restarts(epochs, epochs, 0.05), 0.05)


def test_lows_of_warm_restarts_are_the_ends_of_their_periods() -> None:
    found = lows(lambda epoch, epochs: warm_restarts(epoch, epochs, 0.05), 70)
    assert found == [
        3,
        7,
        15,
        31,
        63,
        70,
    ]  # (the first period, of one epoch, has no lower rate than the next begins at)
    assert all(ends_low(epochs) for epochs in found[:-1])

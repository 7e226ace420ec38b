"""`find_fault` names what a method of one's own does wrong; test_contract.py shows that it names nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import puridiver
from puridiver import plugins
from puridiver.learner.method_check import find_fault

pytestmark = pytest.mark.usefixtures("forgotten_plugins")


def counting(self: Any, pool: Any, n_old: int, capacity: int, moment: Any) -> Tensor:
    """Keeps older and older samples, by a count that no save has."""
    self.count = getattr(self, "count", 0) + 1
    return torch.arange(len(pool)).roll(self.count)[:capacity].sort().values


SAMPLER_FAULTS: dict[str, Callable[..., Any]] = {
    "saved and loaded": counting,
    "returns list": lambda self, pool, n_old, capacity, moment: list(range(len(pool)))[-capacity:],
    "at most 20": lambda self, pool, n_old, capacity, moment: torch.arange(len(pool)),
    "different rows": lambda self, pool, n_old, capacity, moment: torch.zeros(2, dtype=torch.int64),
    "draw from moment.generator": lambda self, pool, n_old, capacity, moment: torch.randperm(len(pool))[:capacity],
    "ZeroDivisionError": lambda self, pool, n_old, capacity, moment: 1 / 0,
}


@pytest.mark.parametrize("fault", SAMPLER_FAULTS)
def test_faults_of_samplers(fault: str) -> None:
    mine = type("Mine", (puridiver.Sampler,), {"name": "mine", "choose": SAMPLER_FAULTS[fault]})
    assert fault in find_fault("sampler", plugins.as_name(mine))


class Counting(puridiver.Trainer):
    """Smooths labels more and more, by a count that no save has."""

    name, count = "counting", 0

    def memory_epoch(self, memory: Any, epoch: int) -> None:
        self.count += 1
        share = min(0.1 * self.count, 0.9)
        self.plain_epoch(memory, self.one_hot(memory.labels) * (1 - share) + share / self.n_classes)


class LateState(puridiver.Trainer):
    """Creates what it saves when it first trains on the memory."""

    name = "late-state"

    def state(self) -> dict[str, Tensor]:
        return {**super().state(), "shares": self.shares}

    def memory_epoch(self, memory: Any, epoch: int) -> None:
        self.shares = self.one_hot(memory.labels).mean(dim=0)
        self.plain_epoch(memory)


class Wild(puridiver.Trainer):
    """Has a rate that is far too high."""

    name = "wild"

    def memory_epoch(self, memory: Any, epoch: int) -> None:
        self.models[0].set_rate(1e30)
        self.plain_epoch(memory)


TRAINER_FAULTS = {"saved and loaded": Counting, "no attribute 'shares'": LateState, "DivergedError": Wild}


@pytest.mark.parametrize(("fault", "trainer"), TRAINER_FAULTS.items())
def test_faults_of_trainers(fault: str, trainer: type) -> None:
    assert fault in find_fault("trainer", plugins.as_name(trainer))


class Mine(puridiver.Network):
    """One convolution."""

    name, kernel = "mine", 3

    def __init__(self, n_classes: int, input_shape: tuple[int, int, int], settings: Any) -> None:
        super().__init__()
        self.body = nn.Conv2d(input_shape[2], 8, self.kernel)
        self.head = puridiver.Head(8, n_classes, settings)

    def features(self, images: Tensor) -> Tensor:
        return self.body(images).mean(dim=(2, 3))


NETWORK_FAULTS: dict[str, Callable[..., Any]] = {
    "(2, 8) for its head, but are torch.float32 (2, 8, 6, 6)": lambda self, images: self.body(images),
    "DivergedError": lambda self, images: Mine.features(self, images) / 0,
    "has no attribute 'nothing'": lambda self, images: images.nothing,
}


@pytest.mark.parametrize("fault", NETWORK_FAULTS)
def test_faults_of_networks(fault: str) -> None:
    mine = type("Mine", (Mine,), {"name": "mine", "features": NETWORK_FAULTS[fault]})
    assert fault in find_fault("network", plugins.as_name(mine))


def test_a_network_for_larger_images_is_tried_on_them() -> None:
    wide = type("Wide", (Mine,), {"name": "wide", "kernel": 20})
    assert not find_fault("network", plugins.as_name(wide))

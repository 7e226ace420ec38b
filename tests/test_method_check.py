"""`find_faults` names what a method of one's own does wrong; test_contract.py shows that it names nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import puridiver
from puridiver import plugins
from puridiver.method_check import find_faults

pytestmark = pytest.mark.usefixtures("forgotten_plugins")


class Rarest(puridiver.Sampler):
    """Keeps the classes that came least often, by counts that no save has."""

    name = "rarest"

    def choose(self, pool: Any, n_old: int, capacity: int, moment: Any) -> Tensor:
        counts = self.__dict__.setdefault("counts", Counter())
        counts.update(pool.labels[n_old:].tolist())
        came = torch.tensor([counts[label] for label in pool.labels.tolist()])
        return came.sort(stable=True).indices[:capacity].sort().values


SAMPLER_FAULTS: dict[str, Callable[..., Any]] = {
    "not saved": Rarest.choose,
    "returns list": lambda self, pool, n_old, capacity, moment: list(range(len(pool)))[-capacity:],
    "returns torch.float32": lambda self, pool, n_old, capacity, moment: torch.arange(len(pool)).float(),
    "instead of at most 20": lambda self, pool, n_old, capacity, moment: torch.arange(len(pool)),
    "a sample twice": lambda self, pool, n_old, capacity, moment: torch.zeros(2, dtype=torch.int64),
    "global random generator": lambda self, pool, n_old, capacity, moment: torch.randperm(len(pool))[:capacity],
    "changes the samples": lambda self, pool, n_old, capacity, moment: pool.labels.zero_()[:0],
    "ZeroDivisionError": lambda self, pool, n_old, capacity, moment: 1 / 0,
}


@pytest.mark.parametrize("fault", SAMPLER_FAULTS)
def test_faults_of_samplers(fault: str) -> None:
    mine = type("Mine", (puridiver.Sampler,), {"name": "mine", "choose": SAMPLER_FAULTS[fault]})
    assert fault in "; ".join(find_faults("sampler", plugins.as_name(mine)))


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


class Idle(puridiver.Trainer):
    """Does not train its first network."""

    name, n_networks = "idle", 2

    def memory_epoch(self, memory: Any, epoch: int) -> None:
        self.plain_epoch(memory, network=1)


TRAINER_FAULTS = {
    "not saved": Counting,
    "no attribute 'shares'": LateState,
    "not finite": Wild,
    "does not change network 0": Idle,
}


@pytest.mark.parametrize(("fault", "trainer"), TRAINER_FAULTS.items())
def test_faults_of_trainers(fault: str, trainer: type) -> None:
    assert fault in "; ".join(find_faults("trainer", plugins.as_name(trainer)))


class Mine(puridiver.Network):
    """One convolution."""

    name, kernel = "mine", 3

    def __init__(self, n_classes: int, image_shape: tuple[int, int, int], settings: Any) -> None:
        super().__init__()
        self.body, self.drop, self.calls = nn.Conv2d(image_shape[2], 8, self.kernel), nn.Dropout(0.5), 0
        self.head = puridiver.Head(8, n_classes, settings)

    def features(self, images: Tensor) -> Tensor:
        return self.body(images).mean(dim=(2, 3))

    def counted(self, images: Tensor) -> Tensor:
        self.calls += 1
        return Mine.features(self, images) * self.calls

    def loose(self, images: Tensor) -> Tensor:
        self.scale = torch.ones(8)
        return Mine.features(self, images) * self.scale


NETWORK_FAULTS: dict[str, Callable[..., Any]] = {
    "(2, 8) for its head, but are torch.float32 (2, 8, 6, 6)": lambda self, images: self.body(images),
    "but are list": lambda self, images: [images],
    "but are torch.float16": lambda self, images: Mine.features(self, images).half(),
    "but are torch.float32 (2, 5)": lambda self, images: Mine.features(self, images)[:, :5],
    "other images of its batch": lambda self, images: Mine.features(self, images - images.mean(0)),
    "the same for every image": lambda self, images: Mine.features(self, 0 * images),
    "global random generator": lambda self, images: self.drop(Mine.features(self, images)),
    "different features the second time": Mine.counted,
    "changes the images": lambda self, images: Mine.features(self, images.mul_(0.5)),
    "features are not finite": lambda self, images: Mine.features(self, images) / 0,
    "no gradient reaches body.weight": lambda self, images: Mine.features(self, images).detach(),
    "scale: a tensor that is neither": Mine.loose,
    "has no attribute 'nothing'": lambda self, images: images.nothing,
}


@pytest.mark.parametrize("fault", NETWORK_FAULTS)
def test_faults_of_networks(fault: str) -> None:
    mine = type("Mine", (Mine,), {"name": "mine", "features": NETWORK_FAULTS[fault]})
    assert fault in "; ".join(find_faults("network", plugins.as_name(mine)))


def test_a_network_for_larger_images_is_tried_on_them() -> None:
    wide = type("Wide", (Mine,), {"name": "wide", "kernel": 20})
    assert find_faults("network", plugins.as_name(wide)) == []

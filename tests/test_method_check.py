"""`find_faults` names what a method of one's own does wrong, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import puridiver
from puridiver import plugins
from puridiver.method_check import LATER_SIZES, SIZES, _batches, find_faults, idle_networks

pytestmark = pytest.mark.usefixtures("forgotten_plugins")


def faults_of(member: type) -> str:
    """All faults as one text."""
    family = next(family for family, (base, _) in plugins.FAMILIES.items() if issubclass(member, base))
    return "; ".join(find_faults(family, plugins.as_name(member)))


# Samplers ----------------------------------------------------------------------------------------------------------

SAMPLER_FAULTS: dict[str, Callable[..., Any]] = {
    "": lambda self, pool, n_old, capacity, moment: torch.arange(len(pool))[-capacity:],
    "returns a list": lambda self, pool, n_old, capacity, moment: list(range(len(pool)))[-capacity:],
    "a tensor of torch.float32": lambda self, pool, n_old, capacity, moment: torch.arange(len(pool)).float(),
    "instead of at most 20": lambda self, pool, n_old, capacity, moment: torch.arange(len(pool)),
    "a sample twice": lambda self, pool, n_old, capacity, moment: torch.zeros(2, dtype=torch.int64),
    "global random generator": lambda self, pool, n_old, capacity, moment: torch.randperm(len(pool))[:capacity],
    "changes the samples": lambda self, pool, n_old, capacity, moment: pool.labels.zero_()[:0],
    "ZeroDivisionError": lambda self, pool, n_old, capacity, moment: 1 / 0,
}


@pytest.mark.parametrize("fault", SAMPLER_FAULTS)
def test_faults_of_samplers(fault: str) -> None:
    found = faults_of(type("Mine", (puridiver.Sampler,), {"name": "mine", "choose": SAMPLER_FAULTS[fault]}))
    assert fault in found
    assert bool(found) == bool(fault)


class Rarest(puridiver.Sampler):
    """Keeps the classes that came least often, by counts that no save has."""

    name = "rarest"

    def choose(self, pool, n_old, capacity, moment):
        counts = self.__dict__.setdefault("counts", Counter())
        counts.update(pool.labels[n_old:].tolist())
        came = torch.tensor([counts[label] for label in pool.labels.tolist()])
        return came.sort(stable=True).indices[:capacity].sort().values


class SavedRarest(puridiver.Sampler):
    """The same by counts that a save has."""

    name = "saved-rarest"

    def choose(self, pool, n_old, capacity, moment):
        came = torch.tensor([moment.seen_of[label] for label in pool.labels.tolist()])
        return came.sort(stable=True).indices[:capacity].sort().values


def test_a_samplers_lost_counts_are_found() -> None:
    assert "not saved" in faults_of(Rarest)
    assert faults_of(SavedRarest) == ""


def test_the_later_stream_reverses_the_order_of_classes_by_their_counts() -> None:
    first, later = (
        Counter(label for _, labels in _batches(sizes, (8, 8, 3), n) for label in labels)
        for sizes, n in ((SIZES, 0), (LATER_SIZES, 4))
    )
    assert set(later) <= set(first) == set(range(4))
    assert first.most_common()[-1][0] == later.most_common()[0][0]


# Trainers ----------------------------------------------------------------------------------------------------------


class Counting(puridiver.Trainer):
    """Smooths labels more and more, by a count that no save has."""

    name = "counting"
    count = 0

    def memory_epoch(self, memory, epoch):
        self.count += 1
        share = min(0.1 * self.count, 0.9)
        self.plain_epoch(memory, self.one_hot(memory.labels) * (1 - share) + share / self.n_classes)


class SavedCounting(Counting):
    """The same, with the count saved."""

    name = "saved-counting"

    def state(self) -> dict[str, Tensor]:
        return {**super().state(), "count": torch.tensor(self.count)}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        super().load_state(tensors)
        self.count = int(tensors["count"])


class LateState(SavedCounting):
    """Creates what it saves when it first trains on the memory."""

    name = "late-state"

    def state(self) -> dict[str, Tensor]:
        return {**super().state(), "shares": self.shares}

    def memory_epoch(self, memory, epoch):
        self.shares = self.one_hot(memory.labels).mean(dim=0)
        super().memory_epoch(memory, epoch)


class Wild(puridiver.Trainer):
    """The rate of its second network is far too high."""

    name = "wild"
    n_networks = 2

    def memory_epoch(self, memory, epoch):
        self.models[1].set_rate(1e30)
        self.plain_epoch(memory, network=1)


class Idle(puridiver.Trainer):
    """Trains nothing."""

    name = "idle"

    def memory_epoch(self, memory, epoch):
        pass


@pytest.mark.parametrize(
    ("trainer", "fault"),
    [(Counting, "not saved"), (SavedCounting, ""), (LateState, "no attribute 'shares'"), (Wild, "not finite")],
)
def test_faults_of_trainers(trainer: type, fault: str) -> None:
    found = faults_of(trainer)
    assert fault in found
    assert bool(found) == bool(fault)


@pytest.mark.parametrize(("trainer", "idle"), [(Idle, [0]), (Wild, [0]), ("coteaching", [])])
def test_networks_that_no_epoch_trains_are_named(trainer: type | str, idle: list[int]) -> None:
    assert idle_networks(plugins.as_name(trainer)) == idle


# Networks ----------------------------------------------------------------------------------------------------------


class Mine(puridiver.Network):
    """One convolution."""

    name = "mine"
    kernel = 3

    def __init__(self, n_classes, image_shape, settings):
        super().__init__()
        self.body, self.drop, self.calls = nn.Conv2d(image_shape[2], 8, self.kernel), nn.Dropout(0.5), 0
        self.head = puridiver.Head(8, n_classes, settings)

    def features(self, images):
        return self.body(images).mean(dim=(2, 3))

    def counted(self, images):
        self.calls += 1
        return self.body(images).mean(dim=(2, 3)) * self.calls

    def loose(self, images):
        self.scale = torch.ones(8)
        return self.body(images).mean(dim=(2, 3)) * self.scale


NETWORK_FAULTS: dict[str, Callable[..., Any]] = {
    "": Mine.features,
    "shape (2, d), but are float32 of shape (2, 8, 6, 6)": lambda self, images: self.body(images),
    "but are a list": lambda self, images: [images],
    "but are float16": lambda self, images: self.body(images).mean(dim=(2, 3)).half(),
    "takes 8 features, but got 5": lambda self, images: self.body(images).mean(dim=(2, 3))[:, :5],
    "other images of its batch": lambda self, images: self.body(images - images.mean(0)).mean(dim=(2, 3)),
    "the same for every image": lambda self, images: self.body(0 * images).mean(dim=(2, 3)),
    "global random generator": lambda self, images: self.drop(self.body(images)).mean(dim=(2, 3)),
    "different features the second time": Mine.counted,
    "changes the images": lambda self, images: self.body(images.mul_(0.5)).mean(dim=(2, 3)),
    "features are not finite": lambda self, images: self.body(images).mean(dim=(2, 3)) / 0,
    "no gradient reaches body.weight": lambda self, images: self.body(images).mean(dim=(2, 3)).detach(),
    "scale: a tensor that is neither": Mine.loose,
    "has no attribute 'nothing'": lambda self, images: images.nothing,
}


@pytest.mark.parametrize("fault", NETWORK_FAULTS)
def test_faults_of_networks(fault: str) -> None:
    found = faults_of(type("Mine", (Mine,), {"name": "mine", "features": NETWORK_FAULTS[fault]}))
    assert fault in found
    assert bool(found) == bool(fault)


def test_a_network_for_larger_images_is_tried_on_them() -> None:
    assert faults_of(type("Wide", (Mine,), {"name": "wide", "kernel": 20})) == ""

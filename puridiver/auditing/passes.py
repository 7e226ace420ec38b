"""The settings of an audit, and one pass: a learner sees the set once, as a stream, and then judges every sample."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver import plugins
from puridiver.learner.inputs import Label
from puridiver.learner.learner import Learner
from puridiver.nets import choose_network
from puridiver.options import Options
from puridiver.runtime.device import choose_runtime, steady_threads

LEAST = {"passes": 1, "parts": 1, "memory": 1, "batch": 1, "neighbours": 1, "seed": 0, "epochs": 1}
EPOCHS, LEAST_SEEN = (15, 31, 63), 3_840  # end at a learning-rate minimum; samples seen: 240 batches of 16
# The default recipe takes four steps a stream batch and memorises wrong labels. It ranks as well, but on digits with
# 40 % asymmetric noise the estimated rate fell from 35 to 21 % (experiments/audit).
RECIPE = "official"
CHUNK = 1024  # samples compared with all others at once: 200 MB for 50,000 samples
SOFTNESS = 0.1  # a neighbour whose cosine is 0.1 lower counts 1/e as much

Advance = Callable[[int, str], None] | None  # told an amount of work that is done, and what comes now


@dataclass(frozen=True)
class AuditSettings:
    """How a labelled set is audited; `device` and `options` are those of `puridiver.Learner`."""

    passes: int = 2  # learners that each see the whole set once, in an order of their own, and then judge it
    parts: int = 2  # each learner trains on its memory after so many equal parts of the set
    memory: int | None = None  # samples a learner's memory holds; None: a fifth of the set, from 50 to 2,000
    batch: int = 64  # samples a learner observes at once
    neighbours: int = 50  # nearest images, by a learner's features, whose labels vote on each sample
    seed: int = 0  # fixes the orders and every random choice of the learners
    epochs: int | None = None  # after each part; None: 15, with a memory below 256 samples 31, below 124 63
    network: str = "auto"  # a network's name, or "auto": the small one on a CPU, by image size on a GPU
    device: str = "auto"
    options: dict[str, Any] = field(default_factory=dict)  # instead of those of the recipe `official`

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            value = getattr(self, name)
            unset = value is None and name in ("memory", "epochs")
            if not unset and (type(value) is not int or not least <= value < 2**63):
                raise ValueError(f"{name} should be a whole number, at least {least}, but got {value!r:.40}")

    def replaced(self, **changes: Any) -> Self:
        """Settings with some fields replaced; any other name is an option of the learner's recipe."""
        own = {name: value for name, value in changes.items() if name in self.__dataclass_fields__}
        options = {name: value for name, value in changes.items() if name not in own}
        Options(**options)  # an unknown name is an error now, not after the data was read
        own["options"] = {**own.get("options", self.options), **options}
        return dataclasses.replace(self, **own)

    def with_network(self, image_shape: tuple[int, ...]) -> Self:
        """Settings that name their network, where it was "auto"."""
        plugins.load_all()
        height, width, channels = image_shape
        device = choose_runtime(self.device).device
        return dataclasses.replace(self, network=choose_network(self.network, (height, width, channels), device))

    def threads(self) -> AbstractContextManager[None]:
        """The threads that the learners run on, so that a seed gives the same figures on every machine."""
        return steady_threads(choose_runtime(self.device).device, self.network)

    def memory_for(self, n_samples: int) -> int:
        return self.memory or min(max(n_samples // 5, 50), 2_000)

    def epochs_for(self, memory: int) -> int:
        """Memory epochs after each part; a small memory has few batches and needs more epochs."""
        return self.epochs or next((epochs for epochs in EPOCHS if epochs * memory >= LEAST_SEEN), EPOCHS[-1])

    def work(self, n_samples: int) -> int:
        """The total of an audit's progress: stream samples, and memory samples times epochs."""
        memory = self.memory_for(n_samples)
        return self.passes * (n_samples + min(self.parts, n_samples) * self.epochs_for(memory) * memory)


@dataclass(frozen=True)
class LabelledSet:
    """What is audited, and what a person has corrected or confirmed of it."""

    images: Tensor  # uint8 (N, H, W, C)
    original: np.ndarray  # int64 (N,): class ids as they came
    classes: list[Label]
    names: list[str] | None = None
    corrections: Mapping[int, int] = field(default_factory=dict)  # row to class id

    def __post_init__(self) -> None:
        have = len(self.original), len(self.classes)
        if min(have) < 2:
            raise ValueError(f"an audit needs at least 2 images and 2 classes, but got {have[0]} and {have[1]}")

    @cached_property
    def given(self) -> np.ndarray:
        """The class ids as they are now, (N,)."""
        found = self.original.copy()
        found[list(self.corrections)] = list(self.corrections.values())
        return found

    @cached_property
    def checked(self) -> np.ndarray:
        """Which labels a person has corrected or confirmed, (N,)."""
        return np.isin(np.arange(len(self.original)), list(self.corrections))


@dataclass(frozen=True)
class Testimony:
    """What one learner says of every sample, in the order of the set."""

    order: np.ndarray  # int64 (N,): the sample that arrived first, second, ...
    in_memory: np.ndarray  # bool (N,): the learner trained on its label again and again, so its word counts little
    scores: np.ndarray  # float32 (N, C): the network's log-probabilities
    votes: np.ndarray  # float32 (N, C): shares of the neighbours' labels


def run_pass(
    labelled: LabelledSet, settings: AuditSettings, number: int, advance: Advance = None
) -> tuple[Learner, Testimony]:
    """Let a new learner see the set once, in this pass's random order, then judge it."""
    images, classes, given = labelled.images, labelled.classes, labelled.given
    seed = int(np.random.SeedSequence([settings.seed, number]).generate_state(1)[0])
    order = np.random.default_rng(seed).permutation(len(given))
    height, width, channels = images.shape[1:]
    learner = Learner(
        classes, (height, width, channels), settings.memory_for(len(given)), recipe=RECIPE, network=settings.network,
        device=settings.device, seed=seed, **{"checked_share": 1.0, **settings.options},  # all checked may stay
    )  # fmt: skip
    for part in np.array_split(order, min(settings.parts, len(order))):
        for start in range(0, len(part), settings.batch):
            rows = part[start : start + settings.batch]
            learner.observe(images[torch.from_numpy(rows)], [classes[label] for label in given[rows].tolist()])
            if advance:
                advance(len(rows), f"pass {number + 1} of {settings.passes}: stream")
        train_memory(learner, labelled, order, settings, number, advance)
    return learner, testify(learner, labelled, order, settings)


def train_memory(
    learner: Learner, labelled: LabelledSet, order: np.ndarray, settings: AuditSettings, number: int, advance: Advance
) -> int:
    """Put the current labels into a learner's memory, mark the checked ones and train; how many labels changed.

    `order` has the row of each arrival.
    """
    samples, capacity = learner.memory.samples, learner.memory.capacity
    arrivals = samples.arrivals.cpu().numpy()
    now = labelled.given[order[arrivals]]
    changed = now != samples.labels.cpu().numpy()
    told = changed | labelled.checked[order[arrivals]]
    if told.any():
        pairs = zip(arrivals[told].tolist(), now[told].tolist(), strict=True)
        learner.correct({arrival: learner.classes[label] for arrival, label in pairs})
    text = f"pass {number + 1} of {settings.passes}: memory"
    learner.consolidate(settings.epochs_for(capacity), lambda epoch: advance and advance(capacity, text))
    return int(changed.sum())


def testify(learner: Learner, labelled: LabelledSet, order: np.ndarray, settings: AuditSettings) -> Testimony:
    """What a learner that saw the set in this order says of it now."""
    log_p, features = learner.look(labelled.images)
    given = torch.from_numpy(labelled.given).to(features.device)
    votes = neighbour_votes(features, given, len(labelled.classes), settings.neighbours)
    in_memory = np.zeros(len(order), dtype=bool)
    in_memory[order[learner.memory.samples.arrivals.cpu().numpy()]] = True
    return Testimony(order, in_memory, log_p.cpu().numpy(), votes.cpu().numpy())


def neighbour_votes(features: Tensor, given: Tensor, n_classes: int, n_neighbours: int) -> Tensor:
    """The share of each class among the labels of the nearest neighbours, closer ones counting more, (N, C).

    `features` are (N, d), `given` (N,) class ids. A sample has no vote on itself.
    """
    unit = F.normalize(features.float(), dim=1)
    votes = unit.new_zeros(len(unit), n_classes)
    for part in torch.arange(len(unit), device=unit.device).split(CHUNK):
        cosines = unit[part] @ unit.T  # (n, N)
        cosines[torch.arange(len(part), device=part.device), part] = -torch.inf
        nearest = cosines.topk(min(n_neighbours, len(unit) - 1), dim=1)
        weights = (nearest.values / SOFTNESS).softmax(dim=1)
        votes[part] = unit.new_zeros(len(part), n_classes).scatter_add_(1, given[nearest.indices], weights)
    return votes

"""The settings of an audit, and one pass: a learner sees the set once, as a stream, and then judges every sample."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver import plugins
from puridiver.learner.inputs import Label
from puridiver.learner.learner import Learner
from puridiver.learner.verdicts import votes_on_each_other
from puridiver.nets import choose_network
from puridiver.options import Option
from puridiver.runtime.device import choose_runtime

WHOLE_NUMBERS = {
    **dict.fromkeys(("passes", "parts"), Option(1, low=1, high=1_000)),
    **dict.fromkeys(("memory", "epochs"), Option(1, low=1)), "seed": Option(0, low=0),
}  # fmt: skip
INFER_AT_ONCE = 4_096  # images
EPOCHS, LEAST_SEEN = (15, 31, 63), 3_840  # end at a learning-rate minimum; samples seen: 240 batches of 16
# The default recipe takes four steps a stream batch and memorises wrong labels. It ranks as well, but on digits with
# 40 % asymmetric noise the estimated rate fell from 35 to 21 % (experiments/audit).
RECIPE = "official"
BATCH = 64  # samples a learner observes at once
NEIGHBOURS = 50  # nearest images, by a learner's features, whose labels vote on each sample
SOFTNESS = 0.1  # a neighbour whose cosine is 0.1 lower counts 1/e as much

Advance = Callable[[int, str], None]  # called with an amount of work done, and the current step


def silent(amount: int, text: str) -> None:
    """Show no progress."""


@dataclass(frozen=True)
class LabelledSet:
    """The set to audit, with the labels that a person has corrected or confirmed."""

    images: Tensor  # uint8 (N, H, W, C), or vectors, float32 (N, d)
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
class AuditSettings:
    """How a labelled set is audited; `device` and `options` are those of `puridiver.Learner`."""

    passes: int = 2  # learners that each see the whole set once, in an order of their own, and then judge it
    parts: int = 2  # each learner trains on its memory after so many equal parts of the set
    memory: int | None = None  # samples a learner's memory holds; None: a fifth of the set, from 50 to 2,000
    seed: int = 0  # fixes the orders and every random choice of the learners
    epochs: int | None = None  # after each part; None: 15, with a memory below 256 samples 31, below 124 63
    network: Any = "auto"  # as of `Learner`; "auto": `convnet` on a CPU, by image size on a GPU
    device: str = "auto"
    options: dict[str, Any] = field(default_factory=dict)  # instead of those of the recipe `official`

    def __post_init__(self) -> None:
        for name, option in WHOLE_NUMBERS.items():
            if (value := getattr(self, name)) is not None or name not in ("memory", "epochs"):
                object.__setattr__(self, name, option.check(name, value))

    def resolved(self, labelled: LabelledSet) -> Self:
        """Settings that name their network, memory and epochs."""
        plugins.load_all()
        network = choose_network(self.network, tuple(labelled.images.shape[1:]), choose_runtime(self.device).device)
        memory = self.memory_for(len(labelled.original))
        return dataclasses.replace(self, network=network, memory=memory, epochs=self.epochs_for(memory))

    def memory_for(self, n_samples: int) -> int:
        return self.memory or min(max(n_samples // 5, 50), 2_000)

    def epochs_for(self, memory: int) -> int:
        """Memory epochs after each part; a small memory has few batches and needs more epochs."""
        return self.epochs or next((epochs for epochs in EPOCHS if epochs * memory >= LEAST_SEEN), EPOCHS[-1])

    def work(self, n_samples: int) -> int:
        """The total of an audit's progress: stream samples, and memory samples times epochs."""
        memory = self.memory_for(n_samples)
        return self.passes * (n_samples + min(self.parts, n_samples) * self.epochs_for(memory) * memory)


class Predictions(NamedTuple):
    """One learner's predictions for every sample, in the order of the set."""

    in_memory: np.ndarray  # bool (N,): the learner trained on its label again and again, so its word counts little
    scores: np.ndarray  # float32 (N, C): the network's log-probabilities
    votes: np.ndarray  # float32 (N, C): shares of the neighbours' labels


def run_pass(labelled: LabelledSet, settings: AuditSettings, number: int, advance: Advance) -> Predictions:
    """Let a learner see the set once, in a random order of its own, and then judge it. Passes count from 0."""
    images, classes, given, name = labelled.images, labelled.classes, labelled.given, f"pass {number + 1}"
    memory = settings.memory_for(len(given))
    seed = int(np.random.SeedSequence([settings.seed, number]).generate_state(1)[0])
    order = np.random.default_rng(seed).permutation(len(given))  # the row of each arrival
    learner = Learner(
        classes, tuple(images.shape[1:]), memory, recipe=RECIPE, network=settings.network, device=settings.device,
        seed=seed, **settings.options,
    )  # fmt: skip
    for part in np.array_split(order, min(settings.parts, len(given))):
        for start in range(0, len(part), BATCH):
            rows = part[start : start + BATCH]
            learner.observe(
                images[torch.from_numpy(rows)], [classes[label] for label in given[rows].tolist()], judge=False
            )
            advance(len(rows), f"{name}: stream")
        held = learner.memory.samples.arrivals.cpu().numpy()
        checked = held[labelled.checked[order[held]]].tolist()
        learner.correct({arrival: classes[given[order[arrival]]] for arrival in checked})
        learner.consolidate(settings.epochs_for(memory), lambda epoch: advance(memory, f"{name}: memory"))
    return predict(learner, labelled, order)


def predict(learner: Learner, labelled: LabelledSet, order: np.ndarray) -> Predictions:
    """The predictions of a learner's live network, after it saw the set in this order."""
    seen = [
        learner.trainer.models[0].outputs(learner.as_samples(learner.runtime.move(part)))
        for part in labelled.images.split(INFER_AT_ONCE)  # a whole large set need not fit on the device
    ]
    log_p = torch.cat([part.logits.float().log_softmax(dim=1) for part in seen])
    features = torch.cat([part.features.float() for part in seen])
    given = torch.from_numpy(labelled.given).to(features.device)
    unit, others = F.normalize(features, dim=1), len(given) - 1
    shares = votes_on_each_other(unit, given, len(labelled.classes), min(NEIGHBOURS, others), SOFTNESS)
    in_memory = np.isin(np.arange(len(order)), order[learner.memory.samples.arrivals.cpu().numpy()])
    return Predictions(in_memory, log_p.cpu().numpy(), shares.cpu().numpy())

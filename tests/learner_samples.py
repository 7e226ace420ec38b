"""Tiny images, learners and trainers for the tests, and ways to compare all that a learner is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from puridiver import Learner, NoiseHint, recipe
from puridiver.memory import Samples
from puridiver.options import owners
from puridiver.runtime.device import choose_runtime
from puridiver.trainers import TRAINERS, Trainer, TrainerContext

SHAPE = (8, 8, 1)
PLAIN_VIEWS: dict[str, Any] = {"crop_padding": 0, "flip": False, "strong": "none", "cutmix": 0.0, "online_cutmix": 0.0}
TINY: dict[str, Any] = {
    "epochs": 2,
    "batch_size": 8,
    "warmup_epochs": 0,
    "baseline_warmup": 1,
    "smallest_set": 0,
    "selfie_history": 2,
    "ntd_views": 2,
    "spr_budget": 0.0005,
    "spr_graphs": 2,
    "crop_padding": 1,
    "flip": False,
    "online_lr": 0.02,
}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def patterns(n: int, n_classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """uint8 (n, 8, 8, 1) and labels (n,): each class has bright rows of its own, under some noise."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % n_classes)
    images = rng.integers(80, size=(n, *SHAPE))
    for image, label in zip(images, labels, strict=True):
        image[2 * label : 2 * label + 2] += 150
    return images.astype(np.uint8), labels


def feed(learner: Learner, images: Any, labels: Any, size: int = 8, ids: Any = None) -> Learner:
    """Let a learner observe images in batches."""
    for start in range(0, len(images), size):
        rows = slice(start, start + size)
        learner.observe(images[rows], labels[rows], None if ids is None else ids[rows])
    return learner


def tiny_learner(classes: Any = 3, memory: int = 12, **settings: Any) -> Learner:
    """A learner for `patterns`, with those of the `TINY` options that its methods have; PuriDivER if none is named."""
    settings = {"sampler": "puridiver", "trainer": "puridiver", "network": "small", **settings}
    methods = {f"{family} {settings[family]}" for family in ("sampler", "trainer")}
    tiny = {name: value for name, value in TINY.items() if not owners(name) or methods & set(owners(name))}
    return Learner(classes, SHAPE, memory, device="cpu", **{**tiny, **settings})


def tiny_trainer(name: str, n_classes: int = 3, seed: int = 0, hint: NoiseHint | None = None, **options: Any) -> Any:
    """A `Trainer` on its own (Any: tests look into each method's own parts); its views leave images as they are."""
    settings = recipe("paper", **{**TINY, **PLAIN_VIEWS, **options})
    generator = torch.Generator().manual_seed(seed)
    return TRAINERS[name](TrainerContext(settings, "small", n_classes, SHAPE, choose_runtime("cpu"), generator, hint))


def as_samples(images: np.ndarray, labels: np.ndarray, first_arrival: int = 0) -> Samples:
    n = len(labels)
    return Samples(
        torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(),
        torch.from_numpy(labels).long(),
        torch.arange(first_arrival, first_arrival + n),
        torch.zeros(n),
        torch.full((n,), -1),
    )


def tensors_of(learner: Learner) -> dict[str, Tensor]:
    """Copies of every tensor that the learner's future depends on, its generators and counts among them."""
    found = learner.state()[1]
    found["counts"] = torch.tensor([learner.seen, learner.consolidations, len(learner.classes)])
    return {name: value.detach().clone() for name, value in found.items()}


def differing(first: dict[str, Tensor], second: dict[str, Tensor]) -> list[str]:
    """Names of the tensors that are not equal to the last bit."""
    return sorted(
        name
        for name in first.keys() | second.keys()
        if name not in first or name not in second or not same(first[name], second[name])
    )


def same(first: Tensor, second: Tensor) -> bool:
    if (first.shape, first.dtype) != (second.shape, second.dtype):
        return False
    return bool(((first == second) | (first.isnan() & second.isnan())).all())


def probabilities(trainer: Trainer, images: Tensor) -> Tensor:
    """What a trainer's live networks predict, (N, C)."""
    return trainer.probabilities(lambda k: trainer.models[k].outputs(images).logits)

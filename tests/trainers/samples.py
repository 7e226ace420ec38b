"""Helpers for tests of trainers: run epochs, watch steps, and divide a memory by hand."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from puridiver.augment import to_float
from puridiver.memory import Samples
from puridiver.mixture import Mixture
from puridiver.trainers import TRAINERS, Split, Trainer

ONLINE = [name for name, trainer in TRAINERS.items() if trainer.learns_online]
CLEAN, RELABEL, UNLABELLED = 0, 1, 2


def consolidate(trainer: Trainer, memory: Samples, epochs: int) -> None:
    for _ in trainer.consolidate(memory, epochs):
        pass


def train_logits(trainer: Trainer, images: Tensor, network: int = 0) -> Tensor:
    """Logits in training mode, computed by a copy so that no running statistics move."""
    net = copy.deepcopy(trainer.networks[network]).train()
    return net(to_float(images)).logits.detach()


def watch_steps(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float]]:
    """Record (network, loss) of every step from now on; the weights stay as they are."""
    steps: list[tuple[int, float]] = []
    for k, model in enumerate(trainer.models):
        monkeypatch.setattr(model, "step", lambda loss, k=k: steps.append((k, float(loss.detach()))))
    return steps


class PlanCall(NamedTuple):
    """A call of `Trainer.run_plan`."""

    step: str
    plan: Tensor
    static: tuple


def watch_plans(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> list[PlanCall]:
    """Record the plans from now on instead of running them."""
    calls: list[PlanCall] = []

    def run_plan(step: Callable[..., None], plan: Tensor, *static: object) -> None:
        calls.append(PlanCall(step.__name__, plan, static))

    monkeypatch.setattr(trainer, "run_plan", run_plan)
    return calls


def hand_made_split(codes: list[int], seed: int = 0) -> Split:
    """A split with the given set of each sample and random network outputs."""
    generator = torch.Generator().manual_seed(seed)
    n, given = len(codes), torch.tensor(codes)
    p_model = torch.rand(n, 3, generator=generator).softmax(dim=1)
    p_clean, p_certain, loss = (torch.rand(n, generator=generator) for _ in range(3))
    two = torch.zeros(2)
    mixture = Mixture(p_clean, two, two, two, torch.zeros(()), torch.ones(()))
    masks = [given == code for code in (CLEAN, RELABEL, UNLABELLED)]
    return Split(torch.arange(n), *masks, p_clean, p_certain, p_model, loss, mixture, mixture)


def split_of_sizes(*sizes: int) -> Split:
    """Sets C, R and U of the given sizes, scattered over the memory."""
    codes = torch.tensor([code for code, size in enumerate(sizes) for _ in range(size)])
    return hand_made_split(codes[torch.randperm(len(codes), generator=torch.Generator().manual_seed(3))].tolist())

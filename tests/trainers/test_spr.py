"""Self-Replay: the base learns from images once enough are new; a copy of it learns from labels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from puridiver.memory import Samples
from puridiver.trainers import StreamBatch
from tests.learner_samples import as_samples, patterns, tiny_trainer
from tests.trainers.samples import consolidate

IMAGES, LABELS = patterns(40)
MEMORY = as_samples(IMAGES, LABELS)
HALF_SHUFFLED = np.where(np.arange(40) % 2, LABELS, (LABELS + 1) % 3)


def base_of(trainer) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in trainer.base.network.state_dict().items()}


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


def rows(start: int, stop: int) -> Samples:
    return MEMORY.take(torch.arange(start, stop))


def test_the_base_learns_once_half_of_what_is_at_hand_is_new() -> None:
    trainer = tiny_trainer("spr")
    before = base_of(trainer)
    trainer.on_candidates(rows(0, 16), 12)  # 4 of 16 are new
    assert same(before, base_of(trainer))
    trainer.on_candidates(rows(4, 20), 12)  # 8 are
    first = base_of(trainer)
    assert not same(before, first)
    trainer.on_candidates(rows(8, 24), 12)  # 4 again
    assert same(first, base_of(trainer))


def test_labels_do_not_reach_the_base() -> None:
    found = []
    for labels in (LABELS, HALF_SHUFFLED):
        trainer = tiny_trainer("spr")
        samples = as_samples(IMAGES, labels)
        trainer.observe(StreamBatch(samples.images, samples.labels))
        trainer.on_candidates(samples, 0)
        consolidate(trainer, samples, 2)
        found.append((base_of(trainer), trainer.models[0].outputs(MEMORY.images).logits))
    assert same(found[0][0], found[1][0])
    assert not torch.equal(found[0][1], found[1][1])


def test_a_consolidation_starts_from_the_base_and_leaves_it_alone() -> None:
    trainer = tiny_trainer("spr")
    trainer.on_candidates(MEMORY, 0)
    base = base_of(trainer)
    trainer.begin_consolidation(MEMORY)
    copied = trainer.networks[0].state_dict()
    body = [name for name in base if not name.startswith("head.")]
    assert body
    assert all(torch.equal(base[name], copied[name]) for name in body)
    consolidate(trainer, MEMORY, 2)
    assert same(base, base_of(trainer))
    assert not torch.equal(base[body[0]], trainer.networks[0].state_dict()[body[0]])


def test_fine_tuning_is_adam_with_gradients_cut_by_value() -> None:
    trainer = tiny_trainer("spr", finetune_clip=1e-4)
    (model,) = trainer.models
    assert isinstance(model.optimiser, torch.optim.Adam)
    trainer.begin_consolidation(MEMORY)
    trainer.memory_epoch(MEMORY, 0)
    largest = [float(p.grad.abs().max()) for p in model.network.parameters()]
    assert max(largest) == pytest.approx(1e-4)
    rates = [float(model.rate) for _ in trainer.consolidate(MEMORY, 3)]
    assert rates == pytest.approx([2e-3] * 3)

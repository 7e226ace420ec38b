"""Learners of a sampler and a trainer: saves of the pairs that interact, online learning and growth."""

from __future__ import annotations

import pytest
import torch

from puridiver import Learner
from puridiver.trainers import TRAINERS
from tests.learner_samples import differing, patterns, tensors_of, tiny_learner

INTERACTING = [("puridiver", "puridiver"), ("spr", "spr"), ("rm", "spr")]
IMAGES, LABELS = patterns(40)


def observe(learner: Learner, start: int, stop: int) -> None:
    for first in range(start, stop, 8):
        learner.observe(IMAGES[first : first + 8], LABELS[first : first + 8])


@pytest.mark.parametrize(("sampler", "trainer"), INTERACTING)
def test_a_saved_pair_continues_to_the_same_bits(sampler: str, trainer: str, tmp_path) -> None:
    learner = tiny_learner(sampler=sampler, trainer=trainer, online_average=0.8)
    observe(learner, 0, 16)
    epochs = learner.consolidation()
    next(epochs)
    loaded = Learner.load(learner.save(tmp_path), device="cpu")
    list(epochs)
    loaded.consolidate()
    for each in (learner, loaded):
        observe(each, 16, 32)
        each.consolidate()
    assert differing(tensors_of(learner), tensors_of(loaded)) == []


@pytest.mark.parametrize("trainer", TRAINERS)
def test_every_network_learns_online_and_growth_keeps_what_it_learnt(trainer: str) -> None:
    learner = tiny_learner([0, 1, 2], trainer=trainer, grow=True)
    before = tensors_of(learner)
    observe(learner, 0, 16)
    changed = differing(before, tensors_of(learner))
    for k in range(learner.trainer.n_networks):
        assert (f"trainer.network{k}.head.linear.weight" in changed) == learner.trainer.learns_online
    images = learner.memory.samples.images
    logits = learner.trainer.models[0].outputs(images).logits
    learner.trainer.grow(5)
    torch.testing.assert_close(learner.trainer.models[0].outputs(images).logits[:, :3], logits)

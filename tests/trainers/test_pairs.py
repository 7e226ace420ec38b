"""Learners of a sampler and a trainer: predictions, audits, growth, and the pairs that interact."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from puridiver import Learner
from puridiver.trainers import SET_NAMES, TRAINERS
from tests.learner_samples import differing, patterns, tensors_of, tiny_learner

INTERACTING = [("puridiver", "puridiver"), ("spr", "spr"), ("rm", "spr")]
IMAGES, LABELS = patterns(40)


def observe(learner: Learner, start: int, stop: int) -> None:
    for first in range(start, stop, 8):
        learner.observe(IMAGES[first : first + 8], LABELS[first : first + 8])


@pytest.mark.parametrize(("sampler", "trainer"), INTERACTING)
def test_a_pair_predicts_and_audits(sampler: str, trainer: str) -> None:
    learner = tiny_learner(sampler=sampler, trainer=trainer)
    observe(learner, 0, 24)
    learner.consolidate()
    observe(learner, 24, 40)
    assert learner.seen == 40
    assert 1 <= len(learner.memory) <= 12
    memory = learner.memory.samples
    assert torch.equal(memory.images, torch.from_numpy(IMAGES[memory.arrivals.numpy()]).permute(0, 3, 1, 2))

    probabilities = learner.predict_proba(IMAGES)
    assert probabilities.shape == (40, 3)
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(learner.predict(IMAGES), probabilities.argmax(axis=1))

    rows = learner.audit()
    assert len({row.arrival for row in rows}) == len(rows) == len(learner.memory)
    assert [row.given_label for row in rows] == [LABELS[row.arrival] for row in rows]
    doubts = [(row.suggested_label == row.given_label, row.p_correct) for row in rows]
    assert doubts == sorted(doubts)
    assert all(0 <= row.p_correct <= 1 and row.suggested_label in (0, 1, 2) for row in rows)
    assert {row.set for row in rows} <= set(SET_NAMES)


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

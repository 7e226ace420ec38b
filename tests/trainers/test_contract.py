"""What every trainer and every sampler promise inside a learner; new members of either family are found by themselves.

Each sampler runs with the default trainer and each trainer with a reservoir, beside the pairs that interact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from puridiver import Learner
from puridiver.memory import SAMPLERS
from puridiver.trainers import SET_NAMES, TRAINERS
from tests.learner_samples import differing, patterns, tensors_of, tiny_learner

PAIRS = sorted({("rsv", t) for t in TRAINERS} | {(s, "puridiver") for s in SAMPLERS} | {("spr", "spr"), ("rm", "spr")})
every_pair = pytest.mark.parametrize(("sampler", "trainer"), PAIRS)
IMAGES, LABELS = patterns(40)


def observe(learner: Learner, part: slice = slice(None), size: int = 8) -> None:
    images, labels = IMAGES[part], LABELS[part]
    for start in range(0, len(labels), size):
        learner.observe(images[start : start + size], labels[start : start + size])


def run(sampler: str, trainer: str, seed: int = 0) -> Learner:
    learner = tiny_learner(sampler=sampler, trainer=trainer, seed=seed)
    observe(learner, slice(0, 24))
    learner.consolidate()
    observe(learner, slice(24, 40))
    return learner


def global_state() -> tuple[torch.Tensor, list[int]]:
    state: Any = np.random.get_state()  # noqa: NPY002
    return torch.get_rng_state(), state[1].tolist()


@every_pair
def test_a_pair_observes_consolidates_predicts_and_audits(sampler: str, trainer: str) -> None:
    learner = run(sampler, trainer)
    learner.consolidate()
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


@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_seed_alone_decides(trainer: str) -> None:
    torch.manual_seed(1)
    before = global_state()
    first = tensors_of(run("rsv", trainer))
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == global_state()[1]
    torch.manual_seed(2)
    assert differing(first, tensors_of(run("rsv", trainer))) == []


@every_pair
def test_saved_and_loaded_it_goes_on_to_the_same_bits(sampler: str, trainer: str, tmp_path) -> None:
    learner = tiny_learner(sampler=sampler, trainer=trainer)
    observe(learner, slice(0, 24))
    loaded = Learner.load(learner.save(tmp_path), device="cpu")
    epochs = learner.consolidation()
    next(epochs)
    amid = Learner.load(learner.save(tmp_path), device="cpu")
    list(epochs)
    loaded.consolidate()
    amid.consolidate()
    for each in (learner, loaded, amid):
        observe(each, slice(24, 40))
        each.consolidate()
        observe(each, slice(0, 8))
    for other in (loaded, amid):
        assert differing(tensors_of(learner), tensors_of(other)) == []
        np.testing.assert_array_equal(learner.predict_proba(IMAGES), other.predict_proba(IMAGES))


@pytest.mark.parametrize(("sampler", "trainer"), [*(("rsv", t) for t in TRAINERS), ("spr", "spr"), ("rm", "plain")])
def test_classes_grow_amid_the_stream(sampler: str, trainer: str) -> None:
    names = np.array(["ant", "bee", "cat"])[LABELS]
    learner = tiny_learner(None, sampler=sampler, trainer=trainer)
    early = names != "cat"
    learner.observe(IMAGES[early][:8], names[early][:8])
    learner.consolidate()
    assert learner.predict_proba(IMAGES).shape == (40, 2)
    learner.observe(IMAGES[:16], names[:16])
    learner.consolidate()
    assert sorted(learner.classes) == ["ant", "bee", "cat"]
    assert set(learner.predict(IMAGES)) <= {"ant", "bee", "cat"}


@pytest.mark.parametrize("trainer", TRAINERS)
def test_every_network_learns_online_and_growth_keeps_what_it_learnt(trainer: str) -> None:
    learner = tiny_learner([0, 1, 2], trainer=trainer, grow=True)
    before = tensors_of(learner)
    observe(learner, slice(0, 24))
    changed = differing(before, tensors_of(learner))
    for k in range(learner.trainer.n_networks):
        assert (f"trainer.network{k}.head.linear.weight" in changed) == learner.trainer.learns_online
    images = learner.memory.samples.images
    logits = learner.trainer.outputs(images).logits
    learner.trainer.grow(5)
    torch.testing.assert_close(learner.trainer.outputs(images).logits[:, :3], logits)


@pytest.mark.parametrize("sampler", ["puridiver", "rm", "ntd"])
@pytest.mark.parametrize("recipe", ["official", "paper"])
def test_every_recipe_runs(sampler: str, recipe: str) -> None:
    learner = Learner(3, (8, 8, 1), 12, sampler=sampler, recipe=recipe, device="cpu", epochs=2, warmup_epochs=1)
    observe(learner, slice(0, 24))
    learner.consolidate()
    observe(learner, slice(24, 40))
    assert np.isfinite(learner.predict_proba(IMAGES)).all()

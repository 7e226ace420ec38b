"""What every trainer must do with every sampler; new members of either family are found by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from puridiver import Learner
from puridiver.memory import SAMPLERS
from puridiver.trainers import SET_NAMES, TRAINERS
from tests.learner_samples import differing, patterns, tensors_of, tiny_learner

PAIRS = [pytest.param(s, t, id=f"{s}-{t}") for t in TRAINERS for s in SAMPLERS]
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


def test_the_families_are_the_papers():
    assert set(SAMPLERS) == {"rsv", "gbs", "crsv", "rm", "puridiver", "ntd", "spr"}
    beyond = {"gce", "sce", "elr"}  # robust losses that the paper does not compare with
    assert set(TRAINERS) == {"plain", "selfie", "coteaching", "dividemix", "puridiver", "spr", *beyond}
    assert all(name == member.name for family in (SAMPLERS, TRAINERS) for name, member in family.items())


@pytest.mark.parametrize(("sampler", "trainer"), PAIRS)
def test_a_pair_observes_consolidates_predicts_and_audits(sampler, trainer):
    learner = run(sampler, trainer)
    learner.consolidate()
    assert learner.seen == 40
    assert 1 <= len(learner.memory) <= 12

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


@pytest.mark.parametrize(("sampler", "trainer"), PAIRS)
def test_the_memory_holds_the_images_that_arrived(sampler, trainer):
    memory = run(sampler, trainer).memory.samples
    expected = torch.from_numpy(IMAGES[memory.arrivals.numpy()]).permute(0, 3, 1, 2)
    assert torch.equal(memory.images, expected)


@pytest.mark.parametrize(("sampler", "trainer"), PAIRS)
def test_the_seed_alone_decides(sampler, trainer):
    torch.manual_seed(1)
    first = tensors_of(run(sampler, trainer))
    torch.manual_seed(2)
    assert differing(first, tensors_of(run(sampler, trainer))) == []
    other = differing(first, tensors_of(run(sampler, trainer, seed=1)))
    assert "trainer.network0.head.linear.weight" in other


def numpy_state() -> np.ndarray:
    state: Any = np.random.get_state()  # noqa: NPY002
    return state[1].copy()


@pytest.mark.parametrize(("sampler", "trainer"), PAIRS)
def test_learning_leaves_the_global_generators_alone(sampler, trainer):
    learner = tiny_learner(sampler=sampler, trainer=trainer)
    before = torch.get_rng_state(), numpy_state()
    observe(learner, slice(0, 24))
    learner.consolidate(1)
    assert torch.equal(before[0], torch.get_rng_state())
    np.testing.assert_array_equal(before[1], numpy_state())


def test_making_and_growing_a_learner_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    learner = tiny_learner(grow=True)
    assert torch.equal(before, torch.get_rng_state())
    learner.observe(IMAGES[:8], np.arange(8))
    assert torch.equal(before, torch.get_rng_state())


def go_on(learner: Learner) -> None:
    observe(learner, slice(24, 40))
    learner.consolidate()
    observe(learner, slice(0, 8))


@pytest.mark.parametrize(("sampler", "trainer"), PAIRS)
def test_saved_amid_the_stream_and_loaded_it_goes_on_to_the_same_bits(sampler, trainer, tmp_path):
    learner = tiny_learner(sampler=sampler, trainer=trainer)
    observe(learner, slice(0, 24))
    assert_goes_on_alike(learner, tmp_path)


@pytest.mark.parametrize(("sampler", "trainer"), PAIRS)
def test_saved_after_consolidation_and_loaded_it_goes_on_to_the_same_bits(sampler, trainer, tmp_path):
    learner = tiny_learner(sampler=sampler, trainer=trainer)
    observe(learner, slice(0, 24))
    learner.consolidate()
    assert_goes_on_alike(learner, tmp_path)


def assert_goes_on_alike(learner: Learner, folder: Path) -> None:
    loaded = Learner.load(learner.save(folder), device="cpu")
    assert differing(tensors_of(learner), tensors_of(loaded)) == []
    for each in (learner, loaded):
        go_on(each)
    assert differing(tensors_of(learner), tensors_of(loaded)) == []
    np.testing.assert_array_equal(learner.predict_proba(IMAGES), loaded.predict_proba(IMAGES))


@pytest.mark.parametrize(("sampler", "trainer"), PAIRS)
def test_classes_grow_amid_the_stream(sampler, trainer):
    names = np.array(["ant", "bee", "cat"])[LABELS]
    learner = tiny_learner(None, sampler=sampler, trainer=trainer)
    early = names != "cat"
    learner.observe(IMAGES[early][:8], names[early][:8])
    learner.consolidate()
    assert set(learner.classes) == {"ant", "bee"}
    assert learner.predict_proba(IMAGES).shape == (40, 2)
    learner.observe(IMAGES[:16], names[:16])
    learner.consolidate()
    assert sorted(learner.classes) == ["ant", "bee", "cat"]
    assert set(learner.predict(IMAGES)) <= {"ant", "bee", "cat"}
    np.testing.assert_allclose(learner.predict_proba(IMAGES).sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_growth_keeps_what_was_learnt_of_the_old_classes(trainer):
    learner = tiny_learner([0, 1, 2], trainer=trainer, grow=True)
    observe(learner, slice(0, 24))
    before = learner.trainer.outputs(learner.memory.samples.images).logits
    learner.trainer.grow(5)
    after = learner.trainer.outputs(learner.memory.samples.images).logits
    assert after.shape[1] == 5
    torch.testing.assert_close(after[:, :3], before)


@pytest.mark.parametrize("trainer", [name for name, member in TRAINERS.items() if member.learns_online])
def test_every_network_learns_online(trainer):
    learner = tiny_learner(trainer=trainer)
    before = tensors_of(learner)
    learner.observe(IMAGES[:8], LABELS[:8])
    changed = differing(before, tensors_of(learner))
    for k in range(learner.trainer.n_networks):
        assert f"trainer.network{k}.head.linear.weight" in changed


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("recipe", ["official", "paper", "puridiver"])
def test_every_recipe_runs_with_every_sampler(sampler, recipe):
    learner = Learner(3, (8, 8, 1), 12, sampler=sampler, recipe=recipe, device="cpu", epochs=2, warmup_epochs=1)
    observe(learner, slice(0, 24))
    learner.consolidate()
    observe(learner, slice(24, 40))
    assert np.isfinite(learner.predict_proba(IMAGES)).all()


def test_out_of_memory_the_network_looks_at_fewer_images_at_a_time(monkeypatch, caplog):
    learner = tiny_learner()
    images = patterns(200)[0]
    expected = learner.predict_proba(images)
    trainee, seen = learner.trainer.trainees[0], []
    original = trainee.outputs

    def small_device(x):
        seen.append(len(x))
        if len(x) > 50:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return original(x)

    monkeypatch.setattr(trainee, "outputs", small_device)
    np.testing.assert_allclose(learner.predict_proba(images), expected, rtol=1e-5)
    assert max(seen[3:]) <= 50
    assert caplog.messages
    assert all("out of GPU memory" in message for message in caplog.messages)

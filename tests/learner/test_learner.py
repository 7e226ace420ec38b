"""The public learner as its user meets it."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest

import puridiver.learner.learner
from puridiver import AuditRow, Learner, recipe
from tests.learner_samples import SHAPE, differing, feed, patterns, tensors_of, tiny_learner

IMAGES, LABELS = patterns(40)
NAMES = np.array(["ant", "bee", "cat"])


def fed(learner: Learner, n: int = 16, labels: Any = LABELS) -> Learner:
    return feed(learner, IMAGES[:n], labels[:n])


# Refusals leave everything as it was -------------------------------------------------------------------------------


def test_a_refused_batch_and_a_prediction_change_no_bit():
    learner = fed(tiny_learner(), 8)
    before, nan = tensors_of(learner), np.full((2, *SHAPE), np.nan)
    for images, labels in ((IMAGES[:2], [0, 3]), (IMAGES[:3], [0, 1]), (IMAGES[0], [0]), (nan, [0, 1])):
        with pytest.raises(ValueError, match="should"):
            learner.observe(images, labels)
    learner.predict(IMAGES)
    learner.audit()
    assert differing(before, tensors_of(learner)) == []
    assert learner.classes == [0, 1, 2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"memory": 0}, "at least 1 sample, but got 0"),
        ({"input_shape": (8, 8, 2)}, r"1 or 3 channels, or \(d,\) of vectors, but got \(8, 8, 2\)"),
        ({"sampler": "best"}, "sampler should be one of .*, but got 'best'"),
        ({"trainer": "best"}, "trainer should be one of .*selfie, spr, verdict, but got 'best'"),
        ({"recipe": "best"}, "recipe should be one of official, paper, puridiver, released, but got 'best'"),
        ({"network": "vit"}, "network should be one of .*resnet18.*, but got 'vit'"),
        ({"device": "abacus"}, "device should be .*, but got 'abacus'"),
        ({"memroy": 3}, r"no option 'memroy'; did you mean memory\?"),
        ({"epochs": -1}, "epochs should be at least 0, but got -1"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Learner(3, **{"input_shape": SHAPE, "memory": 5, "device": "cpu", **settings})


@pytest.mark.parametrize(
    ("settings", "methods"),
    [
        ({}, ("sieve", "verdict", "convnet")),
        ({"network": "small"}, ("sieve", "verdict", "small")),
        ({"input_shape": (16,)}, ("sieve", "verdict", "mlp")),
        ({"trainer": "gce"}, ("sieve", "gce", "convnet")),
        ({"sampler": "rsv"}, ("rsv", "verdict", "convnet")),
        ({"network": "resnet32"}, ("puridiver", "puridiver", "resnet32")),
        ({"recipe": "official"}, ("puridiver", "puridiver", "convnet")),
        ({"recipe": recipe("puridiver")}, ("puridiver", "puridiver", "convnet")),
    ],
    ids=str,
)
def test_methods_that_nobody_named_suit_the_network_and_the_recipe(settings, methods):
    learner = Learner(3, **{"input_shape": SHAPE, "memory": 5, "device": "cpu", **settings})
    assert learner.methods == tuple(map(" ".join, zip(("sampler", "trainer", "network"), methods, strict=True)))


# Classes -----------------------------------------------------------------------------------------------------------


def test_without_classes_they_come_as_their_labels_appear():
    learner = fed(tiny_learner(None), 40, NAMES[LABELS])
    assert learner.classes == list(dict.fromkeys(NAMES[LABELS].tolist()))


def test_before_any_class_there_is_nothing_to_predict():
    learner = tiny_learner(None)
    for look in (learner.predict, learner.predict_proba):
        with pytest.raises(ValueError, match="knows no class yet"):
            look(IMAGES)
    assert learner.audit() == []


# Odd sizes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("trainer", "size"), [("puridiver", 1), ("puridiver", 40), ("dividemix", 1)])
def test_batches_of_one_and_batches_larger_than_the_memory_work(trainer, size):
    learner = tiny_learner(memory=6, trainer=trainer, head="linear_batchnorm")
    for start in range(0, 40, size) if size > 1 else range(8):
        learner.observe(IMAGES[start : start + size], LABELS[start : start + size])
    learner.consolidate()
    assert len(learner.memory) == 6
    assert np.isfinite(learner.predict_proba(IMAGES)).all()


def test_a_consolidation_left_early_goes_back_to_learning_online():
    """Whoever stops training on the memory must not go on at its rate on the stream."""
    learner = fed(tiny_learner(online_lr=0.003, lr=0.05))

    def interrupted(epoch: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.consolidate(5, interrupted)
    assert (learner.consolidating.begun, learner.consolidations) == (None, 1)
    learner.observe(IMAGES[:8], LABELS[:8])
    assert float(learner.trainer.models[0].rate) == pytest.approx(0.003)


def test_an_interrupt_amid_the_end_of_a_consolidation_leaves_a_learner_that_goes_on(monkeypatch):
    learner = fed(tiny_learner(online_lr=0.003, lr=0.05))

    def interrupted(*anything: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(learner.consolidating, "_end", interrupted)
        with pytest.raises(KeyboardInterrupt):
            learner.consolidate(1)
    learner.observe(IMAGES[:8], LABELS[:8])
    assert float(learner.trainer.models[0].rate) == pytest.approx(0.003)
    learner.consolidate(1)
    assert learner.status()["consolidation"] is None


def test_an_audit_finds_the_labels_put_wrong():
    images, labels = patterns(60, seed=5)
    given = labels.copy()
    given[:9] = (given[:9] + 1) % 3
    settings: dict[str, Any] = {
        "network": "small", "epochs": 15, "warmup_epochs": 8, "flip": False, "cutmix": 0.0,
    }  # fmt: skip
    learner = Learner(3, SHAPE, 60, device="cpu", sampler="rsv", recipe="official", **settings)
    learner.observe(images, given)
    learner.consolidate()
    rows = learner.audit()
    assert isinstance(rows[0], AuditRow)
    doubtful = [row for row in rows if row.set != "clean"]
    assert sorted(row.arrival for row in doubtful) == list(range(9))
    assert all(row.suggested_label == labels[row.arrival] for row in rows)
    assert all(row.suggested_label == row.given_label for row in rows if row.set == "clean")


def test_the_example_of_the_documentation_runs():
    assert doctest.testmod(puridiver.learner.learner).failed == 0


def test_a_learner_shows_what_it_is_and_has_seen():
    learner = tiny_learner(None, memory=12)
    assert repr(learner).startswith("<Learner: 0 classes, growing; images 8x8x1; sampler ")
    learner.observe(*patterns(24))
    assert repr(learner).startswith("<Learner: 3 classes, growing; ")
    assert repr(learner).endswith("network small on cpu; 24 samples seen, 12 in a memory of 12>")

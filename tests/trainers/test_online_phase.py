"""The online phase: what a stream batch teaches, when replay joins, when BatchNorm freezes (rows 3, 12 and 13)."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver.trainers import StreamBatch, Trainer
from puridiver.trainers.online import PLANS_AT_ONCE
from tests.learner_samples import as_samples, differing, patterns, tiny_learner, tiny_trainer
from tests.trainers.samples import ONLINE, train_logits

IMAGES, LABELS = patterns(24)


@pytest.mark.parametrize("of", ["mixed", "stream"])
def test_the_loss_for_alpha_is_of_stream_and_replay_together_or_of_the_stream_alone(of):
    trainer = tiny_trainer("plain", alpha_loss=of)
    batch, replay = as_samples(IMAGES[:8], LABELS[:8]), as_samples(IMAGES[8:16], LABELS[8:16])
    everything = torch.cat([batch.images, replay.images])
    expected = {
        "mixed": F.cross_entropy(train_logits(trainer, everything), torch.cat([batch.labels, replay.labels])),
        "stream": F.cross_entropy(trainer.models[0].outputs(batch.images).logits, batch.labels),
    }
    torch.testing.assert_close(trainer.observe(StreamBatch(batch.images, batch.labels, replay)), expected[of])


def test_stream_samples_are_cropped_and_mirrored_anew_for_each_step_and_replayed_ones_are_not(monkeypatch):
    trainer = tiny_trainer("plain", online_steps=2, online_crop_flip=True, crop_padding=2, alpha_loss="mixed")
    shown: list[Tensor] = []
    original = trainer.models[0].logits
    monkeypatch.setattr(trainer.models[0], "logits", lambda images, *_, **__: shown.append(images) or original(images))
    batch, replay = as_samples(IMAGES[:8], LABELS[:8]), as_samples(IMAGES[8:12], LABELS[8:12])
    for _ in range(PLANS_AT_ONCE // 2 + 1):  # more steps than are drawn at once
        trainer.observe(StreamBatch(batch.images, batch.labels, replay))
    assert len(shown) == PLANS_AT_ONCE + 2
    for first, second in itertools.pairwise(shown):
        assert not torch.equal(first[:8], second[:8])
    for images in shown:
        assert not torch.equal(images[:8], batch.images)
        assert torch.equal(images[8:], replay.images)


def test_replayed_samples_are_augmented_unless_told_otherwise() -> None:
    as_they_are, strongly = (tiny_trainer("plain", replay_view=view, crop_padding=2) for view in ("none", "strong"))
    held = as_samples(IMAGES, LABELS).images
    assert torch.equal(as_they_are.replay_view(held), held)
    assert not torch.equal(strongly.replay_view(held), held)


def running_statistics(trainer: Trainer) -> dict[str, Tensor]:
    return {k: v.clone() for k, v in trainer.state().items() if "running" in k}


@pytest.mark.parametrize(("name", "head"), [*((name, "linear") for name in ONLINE), ("plain", "linear_batchnorm")])
def test_frozen_batchnorm_learns_but_leaves_its_statistics(name, head):
    trainer, batch = tiny_trainer(name, head=head), as_samples(IMAGES[:8], LABELS[:8])
    statistics, weights = running_statistics(trainer), trainer.models[0].class_weights.clone()
    trainer.observe(StreamBatch(batch.images, batch.labels, freeze_norm=True))
    assert differing(statistics, running_statistics(trainer)) == []
    assert not torch.equal(weights, trainer.models[0].class_weights)
    trainer.observe(StreamBatch(batch.images, batch.labels))
    assert differing(statistics, running_statistics(trainer)) == sorted(statistics)


@pytest.mark.parametrize(
    ("sampler", "batchnorm", "frozen"),
    [
        ("puridiver", "frozen_when_full", [False, False, True, True]),
        ("rsv", "frozen_when_full", [False] * 4),
        ("puridiver", "train", [False] * 4),
    ],
)
def test_batchnorm_freezes_once_the_memory_is_full(sampler, batchnorm, frozen):
    learner = tiny_learner(memory=12, sampler=sampler, trainer="plain", online_batchnorm=batchnorm)
    found = []
    for start in range(0, 24, 6):
        before = running_statistics(learner.trainer)
        learner.observe(IMAGES[start : start + 6], LABELS[start : start + 6])
        found.append(differing(before, running_statistics(learner.trainer)) == [])
    assert found == frozen

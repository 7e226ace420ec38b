"""Each trainer does what its paper says, checked on hand-made batches and by watching its steps."""

from __future__ import annotations

import copy
import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver import NoiseHint
from puridiver.equations import negative_entropy
from puridiver.nets import Outputs
from puridiver.trainers import TRAINERS, Trainer
from puridiver.trainers.base import PLANS_AT_ONCE
from puridiver.trainers.coteaching import kept_share, small_loss_rows
from puridiver.trainers.dividemix import prior_penalty, ramp, sharpen
from puridiver.trainers.selfie import steady_labels
from tests.learner_samples import as_samples, differing, patterns, tiny_learner, tiny_trainer

IMAGES, LABELS = patterns(24)
ONLINE = [name for name, trainer in TRAINERS.items() if trainer.learns_online]


def consolidate(trainer: Trainer, memory, epochs: int) -> None:
    for _ in trainer.consolidate(memory, epochs):
        pass


def watch_steps(trainer: Trainer, monkeypatch) -> list[tuple[int, float]]:
    """The (network, loss) of every step from now on; the networks stay as they are."""
    steps: list[tuple[int, float]] = []
    monkeypatch.setattr(trainer, "step", lambda network, loss: steps.append((network, float(loss.detach()))))
    return steps


def train_logits(trainer: Trainer, images: Tensor, network: int = 0) -> Tensor:
    """Logits in training mode, by a copy, so that no running statistics move."""
    net = copy.deepcopy(trainer.networks[network]).train()
    return net(trainer.to_float(images)).detach()


# What all share ------------------------------------------------------------------------------------------------


def test_plain_learns_every_label_even_wrong_ones():
    given = LABELS.copy()
    given[:5] = (given[:5] + 1) % 3
    memory = as_samples(IMAGES, given)
    trainer = tiny_trainer("plain", lr=0.1)
    consolidate(trainer, memory, 60)
    np.testing.assert_array_equal(trainer.probabilities(memory.images).argmax(dim=1).numpy(), given)


@pytest.mark.parametrize("name", TRAINERS)
def test_a_trainer_learns_clean_patterns(name):
    memory, (images, labels) = as_samples(IMAGES, LABELS), patterns(60, seed=1)
    accuracies = []
    for seed in range(3):
        trainer = tiny_trainer(name, baseline_warmup=4, warmup_epochs=4, seed=seed)
        consolidate(trainer, memory, 15)
        predicted = trainer.probabilities(as_samples(images, labels).images).argmax(dim=1).numpy()
        accuracies.append((predicted == labels).mean())
    assert np.mean(accuracies) > 0.7  # chance is 0.33; a few seeds of so small a memory miss one class


@pytest.mark.parametrize("name", ONLINE)
@pytest.mark.parametrize("schedule", ["cosine", "warm_restarts"])
def test_every_optimiser_follows_the_schedule_of_torch(name, schedule):
    epochs, lr = 8, 0.05
    trainer = tiny_trainer(name, lr=lr, schedule=schedule, baseline_warmup=2, online_lr=0.003)
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)
    reference = {
        "cosine": torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs),
        "warm_restarts": torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimiser, 1, 2, eta_min=0.01 * lr),
    }[schedule]
    for _ in trainer.consolidate(as_samples(IMAGES, LABELS), epochs):
        rates = [float(trainee.rate) for trainee in trainer.trainees]
        assert rates == pytest.approx([optimiser.param_groups[0]["lr"]] * trainer.n_networks)
        optimiser.step()
        reference.step()
    assert [float(trainee.rate) for trainee in trainer.trainees] == pytest.approx([0.003] * trainer.n_networks)


@pytest.mark.parametrize("name", ONLINE)
def test_consolidation_starts_with_a_fresh_optimiser(name, monkeypatch):
    """Momentum gathered on the stream must not push the first memory step."""
    trainer, memory = tiny_trainer(name), as_samples(IMAGES, LABELS)
    trainer.observe(memory.images, memory.labels)
    assert momentum(trainer)
    found = []
    monkeypatch.setattr(trainer, "memory_epoch", lambda memory, epoch: found.append(momentum(trainer)))
    consolidate(trainer, memory, 1)
    assert found == [[]]


def momentum(trainer: Trainer) -> list[str]:
    return [key for key, value in trainer.state().items() if key.startswith("momentum") and value.any()]


@pytest.mark.parametrize("size", [3, 8, 24, 100])
def test_batches_have_one_size_and_repeat_no_row(size):
    batches = tiny_trainer("plain").batch_rows(24, size)
    assert batches.shape[1] == min(size, 24)
    rows = batches.flatten().tolist()
    assert len(set(rows)) == len(rows) == 24 // min(size, 24) * min(size, 24)


def test_online_steps_repeat_the_step(monkeypatch):
    trainer = tiny_trainer("coteaching", online_steps=3)
    steps = watch_steps(trainer, monkeypatch)
    memory = as_samples(IMAGES[:8], LABELS[:8])
    trainer.observe(memory.images, memory.labels)
    assert sorted(network for network, _ in steps) == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("large_passes", [False, True])
def test_for_want_of_memory_a_look_takes_fewer_images_at_a_time(large_passes, monkeypatch, caplog):
    trainer = tiny_trainer("plain")
    images = as_samples(*patterns(100)).images
    expected, look, fits = trainer.outputs(images), trainer._look[0], [40]

    def limited(chunk: Tensor, version: object) -> Outputs:
        if len(chunk) > fits[0]:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return look(chunk, version=version)

    monkeypatch.setattr(trainer, "_look", [limited])
    for _ in range(2):  # the second time nothing has to be tried
        found = trainer.outputs(images, large_passes=large_passes)
        torch.testing.assert_close(found.logits, expected.logits)
        torch.testing.assert_close(found.features, expected.features)
    told = [message for message in caplog.messages if "out of GPU memory" in message]
    assert told[-1] == "out of GPU memory: looking at 32 images at a time from now on"
    assert len(told) == 2
    fits[0] = 2
    with pytest.raises(torch.OutOfMemoryError):
        trainer.outputs(images)


# The online phase: rows 3, 12 and 13 of the reference -------------------------------------------------------------


@pytest.mark.parametrize("alpha_loss", ["stream", "mixed"])
def test_without_replay_the_loss_for_alpha_is_the_training_loss(alpha_loss):
    trainer, batch = tiny_trainer("plain", alpha_loss=alpha_loss), as_samples(IMAGES[:8], LABELS[:8])
    expected = F.cross_entropy(train_logits(trainer, batch.images), batch.labels)
    torch.testing.assert_close(trainer.observe(batch.images, batch.labels), expected)


def test_the_mixed_loss_for_alpha_is_of_stream_and_replay_together():
    trainer = tiny_trainer("plain", alpha_loss="mixed")
    batch, replay = as_samples(IMAGES[:8], LABELS[:8]), as_samples(IMAGES[8:16], LABELS[8:16])
    everything = torch.cat([batch.images, replay.images])
    expected = F.cross_entropy(train_logits(trainer, everything), torch.cat([batch.labels, replay.labels]))
    torch.testing.assert_close(trainer.observe(batch.images, batch.labels, replay), expected)


def test_the_stream_loss_for_alpha_does_not_hear_of_the_replay():
    batch = as_samples(IMAGES[:8], LABELS[:8])
    found = []
    for replayed in (LABELS[8:16], (LABELS[8:16] + 1) % 3):
        trainer = tiny_trainer("plain", alpha_loss="stream")
        by_hand = F.cross_entropy(trainer.outputs(batch.images).logits, batch.labels)
        loss = trainer.observe(batch.images, batch.labels, as_samples(IMAGES[8:16], replayed))
        torch.testing.assert_close(loss, by_hand)
        found.append(float(loss))
    assert found[0] == found[1]


def test_only_replayed_samples_are_augmented_online(monkeypatch):
    learner = tiny_learner(memory=8, batch_size=8, trainer="plain", replay="always")
    augmented: list[Tensor] = []

    def view(images: Tensor) -> Tensor:
        augmented.append(images)
        return images.flip(3)

    monkeypatch.setattr(learner.trainer, "strong_view", view)
    learner.observe(IMAGES[:8], LABELS[:8])
    assert augmented == []
    joined, original = [], learner.trainer.observe
    monkeypatch.setattr(learner.trainer, "observe", lambda *batch: joined.append(batch) or original(*batch))
    learner.observe(IMAGES[8:16], LABELS[8:16])
    (images, _, replay, _), first_eight = joined[0], as_samples(IMAGES[:8], LABELS[:8]).images
    assert torch.equal(images, as_samples(IMAGES[8:16], LABELS[8:16]).images)
    assert torch.equal(replay.images, first_eight[replay.arrivals].flip(3))


def test_stream_samples_are_cropped_and_mirrored_anew_for_each_step_and_replayed_ones_are_not(monkeypatch):
    trainer = tiny_trainer("plain", online_steps=2, online_crop_flip=True, crop_padding=2, alpha_loss="mixed")
    shown: list[Tensor] = []
    original = trainer.to_float
    monkeypatch.setattr(trainer, "to_float", lambda images: shown.append(images) or original(images))
    batch, replay = as_samples(IMAGES[:8], LABELS[:8]), as_samples(IMAGES[8:12], LABELS[8:12])
    for _ in range(2 * PLANS_AT_ONCE):  # more steps than are drawn at once
        trainer.observe(batch.images, batch.labels, replay)
    assert len(shown) == 4 * PLANS_AT_ONCE
    for first, second in itertools.pairwise(shown):
        assert not torch.equal(first[:8], second[:8])
    for images in shown:
        assert not torch.equal(images[:8], batch.images)
        assert torch.equal(images[8:], replay.images)


def running_statistics(trainer: Trainer) -> dict[str, Tensor]:
    return {k: v.clone() for k, v in trainer.state().items() if "running" in k or "tracked" in k}


@pytest.mark.parametrize("head", ["linear", "linear_batchnorm"])
@pytest.mark.parametrize("name", ONLINE)
def test_frozen_batchnorm_learns_but_leaves_its_statistics(name, head):
    trainer, batch = tiny_trainer(name, head=head), as_samples(IMAGES[:8], LABELS[:8])
    statistics, weights = running_statistics(trainer), trainer.class_weights.clone()
    trainer.observe(batch.images, batch.labels, freeze_norm=True)
    assert differing(statistics, running_statistics(trainer)) == []
    assert not torch.equal(weights, trainer.class_weights)
    trainer.observe(batch.images, batch.labels)
    assert differing(statistics, running_statistics(trainer)) == sorted(statistics)


@pytest.mark.parametrize(
    ("sampler", "batchnorm", "frozen"),
    [
        ("puridiver", "frozen_when_full", [False, False, True, True]),
        ("rm", "frozen_when_full", [False, False, True, True]),
        ("rsv", "frozen_when_full", [False] * 4),
        ("gbs", "frozen_when_full", [False] * 4),
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


@pytest.mark.parametrize(
    ("replay", "expected"),
    [("never", [0, 0, 0, 0, 0]), ("always", [0, 4, 4, 4, 4]), ("after_first_consolidation", [0, 0, 0, 4, 4])],
)
def test_replay_joins_when_it_should(replay, expected, monkeypatch):
    learner = tiny_learner(memory=6, batch_size=4, trainer="plain", replay=replay)
    joined, original = [], learner.trainer.observe

    def watched(images, labels, replay, freeze):
        joined.append(0 if replay is None else len(replay))
        if replay is not None:
            assert set(replay.arrivals.tolist()) <= set(range(learner.seen))
            assert len(set(replay.arrivals.tolist())) == len(replay)
        return original(images, labels, replay, freeze)

    monkeypatch.setattr(learner.trainer, "observe", watched)
    for number, start in enumerate(range(0, 20, 4)):
        if number == 3:
            learner.consolidate()
        learner.observe(IMAGES[start : start + 4], LABELS[start : start + 4])
    assert joined == expected


# SELFIE ----------------------------------------------------------------------------------------------------------


def test_steady_labels_against_a_loop():
    rng = np.random.default_rng(0)
    history, labels = torch.from_numpy(rng.integers(-1, 2, (200, 3))), torch.from_numpy(rng.integers(3, size=200))
    expected = [
        looks[0] if len(set(looks)) == 1 and looks[0] >= 0 else label
        for looks, label in zip(history.tolist(), labels.tolist(), strict=True)
    ]
    assert steady_labels(history, labels).tolist() == expected


def fake_predictions(trainer: Trainer, monkeypatch, predicted: dict[str, list[int]]) -> None:
    def outputs(images: Tensor, network: int = 0) -> Outputs:
        return Outputs(torch.zeros(len(images), 1), F.one_hot(torch.tensor(predicted["now"]), 3).float())

    monkeypatch.setattr(trainer, "outputs", outputs)


def watch_targets(trainer: Trainer, monkeypatch) -> list[list[int]]:
    found: list[list[int]] = []
    monkeypatch.setattr(
        trainer, "plain_epoch", lambda memory, targets, network=0: found.append(targets.argmax(dim=1).tolist())
    )
    return found


def test_selfie_relabels_what_was_predicted_alike_in_all_last_looks(monkeypatch):
    trainer = tiny_trainer("selfie", selfie_history=3, baseline_warmup=1)
    memory = as_samples(IMAGES[:3], np.array([0, 0, 0]))
    predicted: dict[str, list[int]] = {}
    fake_predictions(trainer, monkeypatch, predicted)
    found = watch_targets(trainer, monkeypatch)
    looks = [[2, 1, 2], [2, 1, 1], [2, 1, 2], [2, 0, 2], [1, 0, 2]]
    epochs = trainer.consolidate(memory, len(looks))
    for look in looks:
        predicted["now"] = look
        next(epochs)
    assert found == [[0, 0, 0], [0, 0, 0], [2, 1, 0], [2, 0, 0], [0, 0, 2]]


def test_selfie_waits_for_its_warm_up(monkeypatch):
    trainer = tiny_trainer("selfie", selfie_history=2, baseline_warmup=3)
    fake_predictions(trainer, monkeypatch, {"now": [2, 2]})
    found = watch_targets(trainer, monkeypatch)
    consolidate(trainer, as_samples(IMAGES[:2], np.array([0, 1])), 4)
    assert found == [[0, 1], [0, 1], [0, 1], [2, 2]]


def test_selfies_looks_follow_their_samples_into_the_next_consolidation(monkeypatch):
    trainer = tiny_trainer("selfie", selfie_history=2, baseline_warmup=0)
    predicted = {"now": [2, 2, 2]}
    fake_predictions(trainer, monkeypatch, predicted)
    consolidate(trainer, as_samples(IMAGES[:3], np.zeros(3, dtype=int)), 1)
    found = watch_targets(trainer, monkeypatch)
    newcomer_among_them = as_samples(IMAGES[:4], np.zeros(4, dtype=int)).take(torch.tensor([2, 3, 0]))
    consolidate(trainer, newcomer_among_them, 1)
    assert found == [[2, 0, 2]]


# Co-teaching -----------------------------------------------------------------------------------------------------


def test_the_kept_share_falls_linearly_to_one_minus_the_rate():
    assert [kept_share(e, 0.4, 10) for e in (0, 5, 10, 99)] == pytest.approx([1, 0.8, 0.6, 0.6])


@pytest.mark.parametrize("share", [0.0, 0.25, 0.6, 1.0])
def test_small_loss_rows_against_sorting(share):
    losses = torch.rand(8, generator=torch.Generator().manual_seed(0))
    expected = losses.argsort()[: max(1, round(8 * share))]
    assert sorted(small_loss_rows(losses, share).tolist()) == sorted(expected.tolist())


@pytest.mark.parametrize(("hint", "kept"), [(NoiseHint("sym", 0.5), 4), (None, 8)])
def test_each_coteaching_network_learns_from_the_others_small_losses(hint, kept, monkeypatch):
    trainer = tiny_trainer("coteaching", hint=hint, forget_epochs=1)
    memory = as_samples(IMAGES[:8], LABELS[:8])
    losses = [F.cross_entropy(train_logits(trainer, memory.images, k), memory.labels, reduction="none") for k in (0, 1)]
    steps = watch_steps(trainer, monkeypatch)
    trainer.memory_epoch(memory, epoch=5)
    expected = [(k, float(losses[k][losses[1 - k].argsort()[:kept]].mean())) for k in (0, 1)]
    assert [network for network, _ in steps] == [0, 1]
    assert [loss for _, loss in steps] == pytest.approx([loss for _, loss in expected], rel=1e-4)
    own_choice = float(losses[0][losses[0].argsort()[:kept]].mean())
    assert kept == 8 or steps[0][1] != pytest.approx(own_choice, rel=1e-4)


# DivideMix -------------------------------------------------------------------------------------------------------


def test_dividemix_pieces_by_hand():
    p = torch.tensor([[0.6, 0.3, 0.1]])
    torch.testing.assert_close(sharpen(p, 0.5), torch.tensor([[0.36, 0.09, 0.01]]) / 0.46)
    assert [ramp(e, 10, 16, 25) for e in (0, 10, 18, 26, 99)] == pytest.approx([0, 0, 12.5, 25, 25])
    assert float(prior_penalty(torch.full((4, 3), 1 / 3))) == pytest.approx(0, abs=1e-6)
    assert float(prior_penalty(p)) == pytest.approx(sum(math.log(1 / 3 / q) for q in (0.6, 0.3, 0.1)) / 3, rel=1e-5)
    by_hand = sum(q * math.log(q) for q in (0.6, 0.3, 0.1))
    assert float(negative_entropy(p.log())) == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.parametrize(("warmup", "epochs"), [(1, 1), (0, 1)])
def test_both_dividemix_networks_are_trained(warmup, epochs):
    trainer = tiny_trainer("dividemix", baseline_warmup=warmup)
    before = [net.head.linear.weight.detach().clone() for net in trainer.networks]
    assert not torch.equal(*before)
    consolidate(trainer, as_samples(IMAGES, LABELS), epochs)
    for net, old in zip(trainer.networks, before, strict=True):
        assert not torch.equal(net.head.linear.weight, old)


def test_each_dividemix_network_divides_for_the_other(monkeypatch):
    trainer, memory = tiny_trainer("dividemix", baseline_warmup=0, ramp_epochs=4), as_samples(IMAGES, LABELS)
    p_clean = [torch.rand(24, generator=torch.Generator().manual_seed(k)) for k in (0, 1)]
    monkeypatch.setattr(trainer, "_p_clean", lambda memory, network: p_clean[network])
    calls = []
    monkeypatch.setattr(trainer, "_semi_supervised_epoch", lambda memory, k, p, weight: calls.append((k, p, weight)))
    trainer.memory_epoch(memory, epoch=2)
    assert [(k, p is p_clean[1 - k], weight) for k, p, weight in calls] == [(0, True, 12.5), (1, True, 12.5)]


def test_the_entropy_term_joins_the_warm_up_under_asymmetric_noise_alone(monkeypatch):
    memory = as_samples(IMAGES[:8], LABELS[:8])
    for kind, used in (("asym", 1), ("sym", 0)):
        trainer = tiny_trainer("dividemix", hint=NoiseHint(kind, 0.4), baseline_warmup=1)
        logits = train_logits(trainer, memory.images)
        expected = F.cross_entropy(logits, memory.labels) + used * negative_entropy(logits)
        steps = watch_steps(trainer, monkeypatch)
        trainer.memory_epoch(memory, epoch=0)
        assert steps[0] == (0, pytest.approx(float(expected), rel=1e-4))


def test_dividemix_believes_sure_labels_and_guesses_the_others():
    trainer = tiny_trainer("dividemix", sharpen=0.5)
    memory = as_samples(IMAGES[:12], LABELS[:12])
    x, u = torch.arange(4), torch.arange(4, 10)
    p_clean = torch.tensor([1.0, 1.0, 0.0, 0.5])
    views = [memory.images, memory.images.flip(3)]
    seen = sum(train_logits(trainer, view[x]).softmax(dim=1) for view in views) / 2
    everywhere = torch.zeros(12)
    everywhere[x] = p_clean
    held = {"views0": views[0], "views1": views[1], "labels": memory.labels, "p_clean": everywhere}
    for name, value in held.items():
        trainer.buffers.put(name, value)
    inputs, targets = trainer._guess(0, x, u)
    assert len(inputs) == len(targets) == 2 * 4 + 2 * 6
    mixed = p_clean[:, None] * F.one_hot(memory.labels[x], 3) + (1 - p_clean)[:, None] * seen
    torch.testing.assert_close(targets[:4], mixed.square() / mixed.square().sum(dim=1, keepdim=True))
    assert torch.equal(targets[:4], targets[4:8])
    assert torch.equal(targets[8:14], targets[14:])
    torch.testing.assert_close(targets.sum(dim=1), torch.ones(20))


def test_dividemix_predicts_by_both_networks():
    trainer, memory = tiny_trainer("dividemix"), as_samples(IMAGES, LABELS)
    both = [trainer.outputs(memory.images, k).logits.softmax(dim=1) for k in (0, 1)]
    torch.testing.assert_close(trainer.probabilities(memory.images), (both[0] + both[1]) / 2)

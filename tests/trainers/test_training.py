"""Each trainer does what its paper says, checked on hand-made batches and by watching its steps."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver import NoiseHint
from puridiver.equations import negative_entropy
from puridiver.memory import Samples
from puridiver.trainers import TRAINERS, Trainer
from puridiver.trainers.coteaching import kept_share, small_loss_rows
from tests.learner_samples import as_samples, differing, patterns, probabilities, tiny_trainer

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
    np.testing.assert_array_equal(probabilities(trainer, memory.images).argmax(dim=1).numpy(), given)


@pytest.mark.parametrize("name", TRAINERS)
def test_a_trainer_learns_clean_patterns(name):
    memory, (images, labels) = as_samples(IMAGES, LABELS), patterns(60, seed=1)
    accuracies = []
    for seed in range(3):
        trainer = tiny_trainer(name, baseline_warmup=4, warmup_epochs=4, seed=seed)
        consolidate(trainer, memory, 15)
        predicted = probabilities(trainer, as_samples(images, labels).images).argmax(dim=1).numpy()
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
        rates = [float(trainee.rate) for trainee in trainer.models]
        assert rates == pytest.approx([optimiser.param_groups[0]["lr"]] * trainer.n_networks)
        optimiser.step()
        reference.step()
    assert [float(trainee.rate) for trainee in trainer.models] == pytest.approx([0.003] * trainer.n_networks)


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


# SELFIE ----------------------------------------------------------------------------------------------------------


def looks_and_targets(trainer: Trainer, monkeypatch) -> tuple[dict[int, list[int]], list[dict[int, int]]]:
    """What each training pass said of each sample, in order, and the targets of each epoch, by row of the memory."""
    said: dict[int, list[int]] = {}
    targets: list[dict[int, int]] = []
    step = trainer._looking_step
    logits_of = trainer.models[0].logits

    def watched(row: Tensor, n: int, version: object) -> None:
        seen: list[Tensor] = []
        monkeypatch.setattr(trainer.models[0], "logits", lambda x: seen.append(logits_of(x)) or seen[-1])
        targets[-1].update({r: int(trainer.buffers["targets"][r].argmax()) for r in row[:n].tolist()})
        step(row, n, version)
        for r, guess in zip(row[:n].tolist(), seen[0].argmax(dim=1).tolist(), strict=True):
            said.setdefault(r, []).append(guess)

    monkeypatch.setattr(trainer._run_looking, "step", watched)
    return said, targets


@pytest.mark.parametrize("cutmix", [0.0, 0.5])
def test_selfie_relabels_what_its_last_passes_all_called_the_same(cutmix, monkeypatch):
    trainer = tiny_trainer("selfie", selfie_history=2, baseline_warmup=2, cutmix=cutmix)
    labels = np.roll(LABELS[:24], 1)  # most are wrong, so that some are called otherwise
    memory = as_samples(IMAGES[:24], labels)
    said, targets = looks_and_targets(trainer, monkeypatch)
    epochs = trainer.consolidate(memory, 10)
    for epoch in range(10):
        before = {row: list(looks) for row, looks in said.items()}
        targets.append({})
        next(epochs)
        for row, target in targets[-1].items():
            last = before.get(row, [])[-2:]
            steady = len(last) == 2 and len(set(last)) == 1
            assert target == (last[0] if steady else labels[row]), (epoch, row)
        assert bool(targets[-1]) == (epoch >= 2)  # nothing is looked at before the warm-up is over
    assert any(target != labels[row] for row, target in targets[-1].items())
    assert all(target == labels[row] for found in targets[:4] for row, target in found.items())


def test_selfie_goes_on_with_its_looks_where_it_was_saved():
    memory = as_samples(IMAGES[:16], LABELS[:16])
    whole, parts = (tiny_trainer("selfie", selfie_history=2, baseline_warmup=1) for _ in range(2))
    consolidate(whole, memory, 6)
    begun = parts.consolidate(memory, 6)
    for _ in range(3):
        next(begun)
    saved, generator = {k: v.clone() for k, v in parts.state().items()}, parts.generator.get_state()
    again = tiny_trainer("selfie", selfie_history=2, baseline_warmup=1)
    again.load_state(saved)
    again.generator.set_state(generator)
    for _ in again.consolidate(memory, 6, start=3):
        pass
    assert differing(whole.state(), again.state()) == []


# Co-teaching -----------------------------------------------------------------------------------------------------


def test_the_kept_share_falls_linearly_to_one_minus_the_rate():
    assert [kept_share(e, 0.4, 10) for e in (0, 5, 10, 99)] == pytest.approx([1, 0.8, 0.6, 0.6])


@pytest.mark.parametrize("share", [0.0, 0.25, 0.6, 1.0])
def test_small_loss_rows_against_sorting(share):
    losses = torch.rand(8, generator=torch.Generator().manual_seed(0))
    expected = losses.argsort()[: max(1, math.ceil(8 * share))]
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


def test_each_dividemix_network_divides_for_the_other(monkeypatch):
    trainer, memory = tiny_trainer("dividemix", baseline_warmup=0, ramp_epochs=4), as_samples(IMAGES, LABELS)
    p_clean = [torch.rand(24, generator=torch.Generator().manual_seed(k)) for k in (0, 1)]
    monkeypatch.setattr(trainer, "_p_clean", lambda memory, network: p_clean[network])
    calls = []
    monkeypatch.setattr(
        trainer, "_semi_supervised_epoch", lambda memory, k, p, clean, weight: calls.append((k, p, weight))
    )
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
    torch.testing.assert_close(probabilities(trainer, memory.images), (both[0] + both[1]) / 2)


@pytest.mark.parametrize(("n_unlabelled", "equal", "proportional"), [(4, 4, 2), (8, 8, 4), (20, 16, 10), (40, 16, 20)])
def test_dividemix_takes_unlabelled_samples_level_or_by_their_share(n_unlabelled, equal, proportional, monkeypatch):
    memory = as_samples(np.repeat(IMAGES[:1], 32 + n_unlabelled, axis=0), np.zeros(32 + n_unlabelled, dtype=int))
    clean = torch.arange(len(memory)) < 32
    for how, expected in (("equal", equal), ("proportional", proportional)):
        trainer = tiny_trainer("dividemix", unlabelled_batches=how, batch_size=16)
        found = []
        monkeypatch.setattr(trainer, "_run_mixmatch", lambda plan, k, n_x, n_u, version, f=found: f.append((n_x, n_u)))
        trainer._semi_supervised_epoch(memory, 0, clean.float(), clean, 1.0)
        assert found == [(16, expected)]


@pytest.mark.parametrize(("side", "epochs"), [(8, 50), (64, 50), (224, 4)])
def test_the_stock_of_views_stays_small_whatever_the_images(side, epochs, monkeypatch):
    trainer = tiny_trainer("plain")
    memory = Samples(
        torch.zeros(100, 3, side, side, dtype=torch.uint8), torch.zeros(100, dtype=torch.int64), torch.arange(100),
        torch.zeros(100),
    )  # fmt: skip
    monkeypatch.setattr(trainer, "memory_view", lambda images: images)
    trainer._epochs_left = 1_000
    trainer.next_memory_view(memory)
    assert len(trainer._view_stock) + 1 == epochs

"""SELFIE, Co-teaching and DivideMix against hand-made batches and loops from their papers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver import NoiseHint
from puridiver.equations import negative_entropy
from puridiver.trainers import TRAINERS
from puridiver.trainers.dividemix import prior_penalty, sharpen
from tests.learner_samples import as_samples, patterns, probabilities, tiny_trainer
from tests.trainers.samples import consolidate, train_logits, watch_plans, watch_steps

IMAGES, LABELS = patterns(29)
MEMORY = as_samples(IMAGES, LABELS)
EIGHT = as_samples(IMAGES[:8], LABELS[:8])


@pytest.mark.parametrize("name", TRAINERS)
def test_a_trainer_learns_clean_patterns(name):
    images, labels = patterns(60, seed=1)
    trainer = tiny_trainer(name, baseline_warmup=4, warmup_epochs=4)
    consolidate(trainer, MEMORY, 12)
    predicted = probabilities(trainer, as_samples(images, labels).images).argmax(dim=1).numpy()
    assert (predicted == labels).mean() > 0.6  # chance is 0.33


# SELFIE ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cutmix", [0.0, 0.5])
def test_selfie_relabels_where_the_last_predictions_agree(cutmix, monkeypatch):
    trainer = tiny_trainer("selfie", selfie_history=2, baseline_warmup=2, cutmix=cutmix)
    labels = np.roll(LABELS[:24], 1)  # most are wrong, so that some predictions differ
    said: dict[int, list[int]] = {}  # the classes that each pass predicts for a row of the memory
    targets: dict[int, int] = {}  # of an epoch
    step, logits_of = trainer._looking_step, trainer.models[0].logits

    def _looking_step(row: Tensor, n: int) -> None:
        seen: list[Tensor] = []
        monkeypatch.setattr(trainer.models[0], "logits", lambda x: seen.append(logits_of(x)) or seen[-1])
        targets.update({r: int(trainer.buffers["targets"][r].argmax()) for r in row[:n].tolist()})
        step(row, n)
        for r, guess in zip(row[:n].tolist(), seen[0].argmax(dim=1).tolist(), strict=True):
            said.setdefault(r, []).append(guess)

    monkeypatch.setattr(trainer, "_looking_step", _looking_step)
    epochs = trainer.consolidate(as_samples(IMAGES[:24], labels), 10)
    relabelled = []
    for epoch in range(10):
        before = {row: list(classes) for row, classes in said.items()}
        targets.clear()
        next(epochs)
        assert bool(targets) == (epoch >= 2)  # predictions of the warm-up do not count
        for row, target in targets.items():
            last = before.get(row, [])[-2:]
            steady = len(last) == 2 and len(set(last)) == 1
            assert target == (last[0] if steady else labels[row]), (epoch, row)
        relabelled.append(any(target != labels[row] for row, target in targets.items()))
    assert relabelled[-1]
    assert not any(relabelled[:4])


# Co-teaching -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "epoch", "kept"), [(0.5, 5, 6), (0.5, 10, 4), (0.5, 99, 4), (None, 5, 8)])
def test_each_coteaching_network_learns_from_the_others_small_losses(rate, epoch, kept, monkeypatch):
    """The share of them falls linearly to one minus the rate."""
    hint = None if rate is None else NoiseHint("sym", rate)
    trainer = tiny_trainer("coteaching", hint=hint, forget_epochs=10)
    losses = [F.cross_entropy(train_logits(trainer, EIGHT.images, k), EIGHT.labels, reduction="none") for k in (0, 1)]
    steps = watch_steps(trainer, monkeypatch)
    trainer.memory_epoch(EIGHT, epoch)
    expected = [float(losses[k][losses[1 - k].argsort()[:kept]].mean()) for k in (0, 1)]
    assert [network for network, _ in steps] == [0, 1]
    assert [loss for _, loss in steps] == pytest.approx(expected, rel=1e-4)
    own_choice = float(losses[0][losses[0].argsort()[:kept]].mean())
    assert kept == 8 or steps[0][1] != pytest.approx(own_choice, rel=1e-4)


# DivideMix -------------------------------------------------------------------------------------------------------


def test_sharpening_and_the_prior_penalty_are_the_loops() -> None:
    p = torch.rand(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64).mul(3).softmax(dim=1)
    for temperature in (0.5, 1.0, 2.0):
        for row, sharp in zip(p.tolist(), sharpen(p, temperature).tolist(), strict=True):
            powers = [v ** (1 / temperature) for v in row]
            assert sharp == pytest.approx([v / sum(powers) for v in powers])
    mean = [sum(column) / len(p) for column in zip(*p.tolist(), strict=True)]
    assert float(prior_penalty(p)) == pytest.approx(sum(1 / 4 * math.log(1 / 4 / m) for m in mean))


def test_each_dividemix_network_divides_for_the_other(monkeypatch):
    trainer = tiny_trainer("dividemix", baseline_warmup=0, ramp_epochs=4)
    p_clean = [torch.rand(29, generator=torch.Generator().manual_seed(k)) for k in (0, 1)]
    monkeypatch.setattr(trainer, "_p_clean", lambda memory, network: p_clean[network])
    calls = []
    monkeypatch.setattr(
        trainer, "_semi_supervised_epoch", lambda memory, k, p, clean, weight: calls.append((k, p, weight))
    )
    trainer.memory_epoch(MEMORY, epoch=2)
    assert [(k, p is p_clean[1 - k], weight) for k, p, weight in calls] == [(0, True, 12.5), (1, True, 12.5)]


@pytest.mark.parametrize(("kind", "used"), [("asym", 1), ("sym", 0)])
def test_the_entropy_term_joins_the_warm_up_under_asymmetric_noise_alone(kind, used, monkeypatch):
    trainer = tiny_trainer("dividemix", hint=NoiseHint(kind, 0.4), baseline_warmup=1)
    logits = train_logits(trainer, EIGHT.images)
    expected = F.cross_entropy(logits, EIGHT.labels) + used * negative_entropy(logits)
    steps = watch_steps(trainer, monkeypatch)
    trainer.memory_epoch(EIGHT, epoch=0)
    assert steps[0] == (0, pytest.approx(float(expected), rel=1e-4))


def test_a_mixmatch_step_is_the_formulas(monkeypatch):
    """Co-refined labels, co-guessed labels, both losses and the prior penalty; MixUp mixes nothing."""
    trainer = tiny_trainer("dividemix", sharpen=0.5)
    x, u = torch.arange(4), torch.arange(4, 10)
    p_clean = torch.tensor([1.0, 1.0, 0.0, 0.5])
    views = [MEMORY.images, MEMORY.images.flip(3)]
    own = [[train_logits(trainer, view[rows]).softmax(dim=1) for view in views] for rows in (x, u)]
    other = [trainer.models[1].outputs(view[u]).logits.softmax(dim=1) for view in views]
    everywhere = torch.zeros(29)
    everywhere[x] = p_clean
    held = {"views0": views[0], "views1": views[1], "labels": MEMORY.labels, "p_clean": everywhere}
    for name, value in {**held, "weight": torch.tensor(2.0)}.items():
        trainer.buffers.put(name, value)
    refined = p_clean[:, None] * F.one_hot(MEMORY.labels[x], 3) + (1 - p_clean)[:, None] * sum(own[0]) / 2
    guessed = (sum(own[1]) + sum(other)) / 4
    sharp = [p.square() / p.square().sum(dim=1, keepdim=True) for p in (refined, guessed)]
    wanted = torch.cat([sharp[0], sharp[0], sharp[1], sharp[1]])
    logits = train_logits(trainer, torch.cat([view[rows] for rows in (x, u) for view in views]))
    p = logits.softmax(dim=1)
    l_x = -(wanted[:8] * logits.log_softmax(dim=1)[:8]).sum(dim=1).mean()
    l_u = (p[8:] - wanted[8:]).square().mean()
    monkeypatch.setattr("puridiver.augment.planned_mix", lambda values, plan: values)
    steps = watch_steps(trainer, monkeypatch)
    trainer._mixmatch_step(torch.cat([x, u]), 0, 4, 6)
    assert steps == [(0, pytest.approx(float(l_x + 2 * l_u + prior_penalty(p)), rel=1e-4))]


def test_dividemix_predicts_by_both_networks():
    trainer = tiny_trainer("dividemix")
    both = [model.outputs(MEMORY.images).logits.softmax(dim=1) for model in trainer.models]
    torch.testing.assert_close(probabilities(trainer, MEMORY.images), (both[0] + both[1]) / 2)


@pytest.mark.parametrize(
    ("n_labelled", "parts"),
    [
        (2, []),  # plain epochs: a set of two fills no batch
        (5, [5]),
        (17, [8]),  # a single row is left out
        (21, [8, 5]),
        (27, []),
    ],
)
def test_dividemix_plans_batches_of_trusted_and_other_rows(n_labelled, parts, monkeypatch):
    trainer = tiny_trainer("dividemix", baseline_warmup=0, last_batch="trained")
    trusted = torch.arange(29) >= 29 - n_labelled
    monkeypatch.setattr(trainer, "_p_clean", lambda memory, network: trusted.float())
    plain: list[int] = []
    monkeypatch.setattr(trainer, "plain_epoch", lambda memory, network: plain.append(network))
    watched = watch_plans(trainer, monkeypatch)
    trainer.memory_epoch(MEMORY, 1)
    assert plain == ([] if parts else [0, 1])
    for network in (0, 1):
        calls = [call for call in watched if call.static[0] == network]
        assert [call.static[1] for call in calls] == parts
        taken = [row for call in calls for row in call.plan[:, : call.static[1]].flatten().tolist()]
        assert len(set(taken)) == len(taken)
        assert trusted[taken].all()
        for _, plan, (_, n_x, n_u) in calls:
            others = plan[:, n_x : n_x + n_u]
            assert not trusted[others].any()
            assert all(len(set(batch)) == n_u for batch in others.tolist())
            assert plan.shape[1] == n_x + n_u + 2 * (n_x + n_u) + 1

"""Row 24: what fills no whole batch of a memory epoch is left out, or a smaller batch of its own at its end."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver import augment
from puridiver.trainers.schedule import in_batches
from tests.learner_samples import as_samples, patterns, tiny_trainer

IMAGES, LABELS = patterns(29)
MEMORY = as_samples(IMAGES, LABELS)  # 29 = 3 * 8 + 5


def consolidate(trainer, epochs: int, memory=MEMORY) -> None:
    for _ in trainer.consolidate(memory, epochs):
        pass


class Runner:
    """Stands in the place of a `PlanRunner`: what it was asked to run, and whether it might have captured it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Tensor, tuple]] = []

    def __call__(self, plan: Tensor, *static) -> None:
        self.calls.append(("often", plan, static))

    def once(self, plan: Tensor, *static) -> None:
        self.calls.append(("once", plan, static))


def watch(trainer, monkeypatch, runner: str) -> Runner:
    watched = Runner()
    monkeypatch.setattr(trainer, runner, watched)
    return watched


# Batches -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "left_out", "trained", "trained_from_one"),
    [
        (24, [(3, 8)], [(3, 8)], [(3, 8)]),
        (29, [(3, 8)], [(3, 8), (1, 5)], [(3, 8), (1, 5)]),
        (26, [(3, 8)], [(3, 8), (1, 2)], [(3, 8), (1, 2)]),
        (25, [(3, 8)], [(3, 8)], [(3, 8), (1, 1)]),  # a single row
        (8, [(1, 8)], [(1, 8)], [(1, 8)]),
        (5, [(1, 5)], [(1, 5)], [(1, 5)]),  # less than a batch is the batch
    ],
)
def test_batches_come_in_parts_of_one_size(n, left_out, trained, trained_from_one):
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    found = [in_batches(order, 8), in_batches(order, 8, with_rest=True), in_batches(order, 8, True, fewest=1)]
    for parts, shapes in zip(found, (left_out, trained, trained_from_one), strict=True):
        assert [tuple(part.shape) for part in parts] == shapes
        joined = torch.cat([part.flatten() for part in parts])
        assert torch.equal(joined, order[: len(joined)])


# Plain epochs and Co-teaching --------------------------------------------------------------------------------------

PLAIN = [
    pytest.param("plain", "_run_plain", id="plain"),
    pytest.param("selfie", "_run_plain", id="selfie"),
    pytest.param("dividemix", "_run_plain", id="dividemix's warm-up"),
    pytest.param("puridiver", "_run_plain", id="puridiver's warm-up"),
    pytest.param("coteaching", "_run_teaching", id="coteaching"),
]
WARM_UP = {"warmup_epochs": 1, "baseline_warmup": 1}


@pytest.mark.parametrize(("name", "runner"), PLAIN)
def test_left_out_an_epoch_is_drawn_as_ever(name, runner, monkeypatch):
    trainer = tiny_trainer(name, cutmix=0.5, last_batch="left_out", **WARM_UP)
    expected = torch.Generator()
    expected.set_state(trainer.generator.get_state())
    monkeypatch.setattr(trainer, "next_memory_view", lambda memory: memory.images)
    watched = watch(trainer, monkeypatch, runner)
    trainer.begin_consolidation(MEMORY)
    trainer.memory_epoch(MEMORY, 0)
    epochs = trainer.n_networks if runner == "_run_plain" else 1
    assert len(watched.calls) == epochs
    for often, plan, _ in watched.calls:
        rows = torch.randperm(29, generator=expected)[:24].view(3, 8)
        cutmix = augment.draw_cutmix_plan(3, 8, 8, 8, 0.5, 1.0, expected)
        assert often == "often"
        assert torch.equal(plan, torch.cat([rows, cutmix], dim=1))
    assert torch.equal(trainer.generator.get_state(), expected.get_state())


@pytest.mark.parametrize(("name", "runner"), PLAIN)
def test_trained_every_sample_is_in_one_batch_of_an_epoch(name, runner, monkeypatch):
    trainer = tiny_trainer(name, cutmix=1.0, last_batch="trained", **WARM_UP)
    watched = watch(trainer, monkeypatch, runner)
    trainer.begin_consolidation(MEMORY)
    trainer.memory_epoch(MEMORY, 0)
    calls = watched.calls
    assert len(calls) == 2 * (trainer.n_networks if runner == "_run_plain" else 1)
    for (_, whole, _), (how, rest, static) in zip(calls[::2], calls[1::2], strict=True):
        assert sorted([*whole[:, :8].flatten().tolist(), *rest[:, :5].flatten().tolist()]) == list(range(29))
        assert how == "often"  # of the same size in every epoch: may be captured
        assert 5 in static
        assert rest.shape == (1, 5 + 5 + 4)
        assert sorted(rest[0, 5:10].tolist()) == list(range(5))  # CutMix's partners are of the rest


def test_the_last_step_learns_from_the_rest(monkeypatch):
    trainer = tiny_trainer("plain", last_batch="trained")
    net = copy.deepcopy(trainer.networks[0]).train()
    step, rows, losses = trainer._plain_step, [], []

    def watched(row, network, n, entropy_weight, version):
        rows.append(row[:n])
        step(row, network, n, entropy_weight, version)

    monkeypatch.setattr(trainer._run_plain, "step", watched)
    monkeypatch.setattr(trainer, "step", lambda network, loss: losses.append(float(loss.detach())))
    trainer.memory_epoch(MEMORY, 0)
    assert [len(batch) for batch in rows] == [8, 8, 8, 5]
    expected = [F.cross_entropy(net(trainer.to_float(MEMORY.images[b])), MEMORY.labels[b]).item() for b in rows]
    assert losses == pytest.approx(expected, rel=1e-5)


# DivideMix ---------------------------------------------------------------------------------------------------------


def divided(monkeypatch, n_labelled: int, last_batch: str, **options):
    """A DivideMix past its warm-up that trusts the last `n_labelled` samples; the trusted rows and the others."""
    trainer = tiny_trainer("dividemix", baseline_warmup=0, last_batch=last_batch, **options)
    trusted = (torch.arange(29) >= 29 - n_labelled).float()
    monkeypatch.setattr(trainer, "_p_clean", lambda memory, network: trusted)
    monkeypatch.setattr(trainer, "next_memory_view", lambda memory: memory.images)
    return trainer, trusted.nonzero().squeeze(1), (1 - trusted).nonzero().squeeze(1)


@pytest.mark.parametrize(("n_labelled", "rest"), [(21, 5), (18, 2), (17, 0), (16, 0), (5, 0)])
def test_dividemix_ends_with_the_rest_of_the_labelled_uncaptured(n_labelled, rest, monkeypatch):
    trainer, labelled, unlabelled = divided(monkeypatch, n_labelled, "trained")
    watched = watch(trainer, monkeypatch, "_run_mixmatch")
    trainer.memory_epoch(MEMORY, 1)
    size, n_u = min(8, n_labelled), 8
    expected = [("often", size), ("once", rest)] if rest else [("often", size)]
    for network in (0, 1):
        calls = [call for call in watched.calls if call[2][0] == network]
        assert [(how, static[1]) for how, _, static in calls] == expected
        assert all(static[2] == n_u for _, _, static in calls)
        taken = torch.cat([plan[:, : static[1]].flatten() for _, plan, static in calls])
        assert len(taken.unique()) == len(taken) == n_labelled - (n_labelled == 17)
        assert set(taken.tolist()) <= set(labelled.tolist())
        for _, plan, (_, n_x, _, _) in calls:
            others = plan[:, n_x : n_x + n_u]
            assert set(others.flatten().tolist()) <= set(unlabelled.tolist())
            assert all(len(set(batch)) == n_u for batch in others.tolist())
            assert plan.shape[1] == n_x + n_u + 2 * (n_x + n_u) + 1


# SPR ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_labelled", "plain"), [(2, True), (3, False), (26, False), (27, True)])
def test_dividemix_learns_plainly_where_a_set_is_too_small(n_labelled, plain, monkeypatch):
    trainer, _, _ = divided(monkeypatch, n_labelled, "left_out")
    watched = watch(trainer, monkeypatch, "_run_mixmatch")
    epochs = []
    monkeypatch.setattr(trainer, "plain_epoch", lambda memory, network: epochs.append(network))
    trainer.memory_epoch(MEMORY, 1)
    assert epochs == ([0, 1] if plain else [])
    assert bool(watched.calls) is not plain

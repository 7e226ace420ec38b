"""ER-ACE, DER++, MIR, CLIB, AER and CNLL against the formulas of their authors, as loops."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from puridiver import augment, recipe
from puridiver.augment import to_float
from puridiver.equations import label_divergence, purified
from puridiver.learner.learner import Learner
from puridiver.learner.method_check import find_fault
from puridiver.memory import SAMPLERS
from puridiver.trainers import StreamBatch
from puridiver.trainers.clib import RateSearch, fallen
from puridiver.trainers.cnll import LABELLED_EPOCHS
from puridiver.trainers.derpp import logit_distance
from puridiver.trainers.er_ace import asymmetric_cross_entropy
from puridiver.trainers.mir import interference
from tests import reference
from tests.learner_samples import as_samples, feed, patterns, tiny_learner, tiny_trainer
from tests.memory.fakes import FixedNetwork, moment
from tests.trainers.samples import train_logits, watch_steps

IMAGES, LABELS = patterns(32)
STREAM, REPLAY = as_samples(IMAGES[:8], LABELS[:8] % 2), as_samples(IMAGES[8:16], LABELS[8:16], 8)


def test_er_is_the_replay_loop_that_a_user_would_write() -> None:
    trainer = tiny_learner(sampler="rsv", trainer="er", online_lr=1e-3).trainer
    network = copy.deepcopy(trainer.networks[0]).train()
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    for replay in (None, REPLAY):
        trainer.observe(StreamBatch(STREAM.images, STREAM.labels, replay))
        batch = STREAM if replay is None else STREAM.joined(replay)
        logits = network(to_float(batch.images)).logits
        losses = [-row.log_softmax(0)[k] for row, k in zip(logits, batch.labels, strict=True)]
        optimiser.zero_grad()
        (sum(losses) / len(losses)).backward()
        optimiser.step()
    for found, expected in zip(trainer.networks[0].parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("n_stream", [1, 4])  # a single sample competes with all classes
def test_er_ace_lets_stream_samples_compete_among_their_own_classes(n_stream: int):
    logits, labels = torch.randn(10, 5), torch.tensor([1, 3, 3, 1, 0, 4, 1, 2, 3, 0])
    found = asymmetric_cross_entropy(logits, F.one_hot(labels, 5).float(), n_stream)
    expected = reference.asymmetric_cross_entropy(logits.tolist(), labels.tolist(), n_stream)
    assert float(found) == pytest.approx(expected, 1e-5)


def test_er_ace_steps_by_its_loss_and_knows_a_stream_without_replay(monkeypatch):
    trainer = tiny_trainer("er-ace")
    logits = torch.cat([train_logits(trainer, part.images) for part in (STREAM, REPLAY)])
    labels, steps = [*STREAM.labels.tolist(), *REPLAY.labels.tolist()], watch_steps(trainer, monkeypatch)
    trainer.observe(StreamBatch(STREAM.images, STREAM.labels, REPLAY))
    trainer.observe(StreamBatch(STREAM.images, STREAM.labels))
    both = reference.asymmetric_cross_entropy(logits.tolist(), labels, 8)
    alone = reference.asymmetric_cross_entropy(logits[:8].tolist(), labels[:8], 8)
    assert [loss for _, loss in steps] == pytest.approx([both, alone], 1e-4)


def test_der_holds_replayed_samples_to_their_logits_and_labels(monkeypatch):
    trainer = tiny_trainer("derpp", der_alpha=0.3, der_beta=0.7)
    kept = torch.randn(8, 2)  # from before the third class
    replay = replace(REPLAY, vectors=kept)
    new, dark, labelled = (train_logits(trainer, x) for x in (STREAM.images, replay.images[:4], replay.images[4:]))
    steps = watch_steps(trainer, monkeypatch)
    trainer.observe(StreamBatch(STREAM.images, STREAM.labels, replay))
    known = [[*row, float("nan")] for row in kept[:4].tolist()]
    expected = float(F.cross_entropy(new, STREAM.labels) + 0.7 * F.cross_entropy(labelled, replay.labels[4:]))
    expected += 0.3 * reference.logit_distance(dark.tolist(), known)
    assert steps == [(0, pytest.approx(expected, 1e-4))]
    assert torch.equal(trainer.vectors, new)


def test_der_keeps_logits_through_evictions_new_classes_and_a_save(tmp_path):
    learner = tiny_learner([0, 1], sampler="rsv", trainer="derpp", grow=True, batch_size=4)
    told = {}
    observe = learner.trainer.observe

    def watched(batch):
        loss = observe(batch)
        told.update(zip(range(learner.seen, learner.seen + len(batch.images)), learner.trainer.vectors, strict=True))
        return loss

    learner.trainer.observe = watched
    feed(learner, IMAGES, np.where(np.arange(32) < 16, LABELS % 2, LABELS))
    del learner.trainer.observe
    held = learner.memory.samples
    assert held.vectors.shape == (12, 3)
    for arrival, vector in zip(held.arrivals.tolist(), held.vectors, strict=True):
        width = len(told[arrival])
        assert torch.equal(vector[:width], told[arrival])
        assert vector[width:].isnan().all()
    again = Learner.load(learner.save(tmp_path / "saved"), device="cpu")
    assert torch.equal(again.memory.samples.vectors.nan_to_num(), held.vectors.nan_to_num())


def test_a_save_with_wrong_vectors_is_refused():
    memory = feed(tiny_learner(trainer="derpp"), IMAGES, LABELS).memory
    state = memory.state() | {"samples.vectors": torch.zeros(3)}
    with pytest.raises(ValueError, match=r"samples.vectors should be torch.float32 \(12, width\), but is"):
        memory.load_state(state, 3, 32)


def test_unknown_logits_do_not_count():
    nan = float("nan")
    assert float(logit_distance(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, nan]]))) == 4
    assert float(logit_distance(torch.tensor([[1.0]]), torch.tensor([[nan]]))) == 0


def test_interference_is_what_a_step_on_the_stream_batch_does_to_each_loss():
    trainer, rate = tiny_trainer("mir"), 0.1
    model = trainer.models[0]
    found = interference(model, STREAM.images, STREAM.labels, REPLAY.images, REPLAY.labels, rate)
    stepped = copy.deepcopy(trainer.networks[0]).eval()
    F.cross_entropy(stepped(to_float(STREAM.images)).logits, STREAM.labels).backward()
    torch.optim.SGD(stepped.parameters(), lr=rate).step()
    for i in range(8):
        image, label = to_float(REPLAY.images[i : i + 1]), REPLAY.labels[i : i + 1]
        with torch.no_grad():
            losses = [float(F.cross_entropy(net.eval()(image).logits, label)) for net in (trainer.networks[0], stepped)]
        assert float(found[i]) == pytest.approx(losses[1] - losses[0], abs=1e-5)


def test_mir_replays_what_the_batch_would_disturb_most(monkeypatch):
    trainer = tiny_trainer("mir", batch_size=3, mir_candidates=8)
    assert trainer.replay_size(3) == 8
    model = trainer.models[0]
    scores = interference(model, STREAM.images, STREAM.labels, REPLAY.images, REPLAY.labels, trainer.options.mir_rate)
    seen = []
    monkeypatch.setattr(model, "step", lambda loss: None)
    step = trainer._online_step
    monkeypatch.setattr(trainer, "_run_online", lambda images, *rest: seen.append(images) or step(images, *rest))
    trainer.observe(StreamBatch(STREAM.images, STREAM.labels, REPLAY))
    assert torch.equal(seen[0][8:], REPLAY.images[scores.argsort(descending=True)[:3]])


def test_clib_learns_from_the_memory_alone_once_there_is_one(monkeypatch):
    trainer = tiny_trainer("clib")
    expected = [F.cross_entropy(train_logits(trainer, part.images), part.labels) for part in (STREAM, REPLAY)]
    steps = watch_steps(trainer, monkeypatch)
    trainer.observe(StreamBatch(STREAM.images, STREAM.labels))
    trainer.observe(StreamBatch(STREAM.images, STREAM.labels, REPLAY))
    assert [loss for _, loss in steps] == pytest.approx([float(loss) for loss in expected], 1e-4)


def test_rates_move_towards_the_one_under_which_the_loss_falls_faster():
    for lead, expected in ((1.0, 0.1 * 0.5), (-1.0, 0.1 / 0.5), (0.0, 0.1)):
        search, noise = RateSearch(0.1, 0.5, 5, 0.05), np.random.default_rng(0).normal(size=10) * 0.1
        for turn in range(10):
            assert search.rate == pytest.approx(0.1 if turn % 2 == 0 else 0.05)
            search.tried(noise[turn // 2] + lead * (turn % 2))  # odd turns are of the low rate
        assert search.high == pytest.approx(expected)
        assert len(search.falls[True]) == (0 if lead else 5)


def test_the_fall_of_the_loss_is_that_of_samples_that_stayed():
    first, second = torch.tensor([3, 5, 9]), torch.tensor([5, 9, 11])
    assert fallen(first, torch.tensor([1.0, 2.0, 4.0]), second, torch.tensor([1.5, 1.0, 7.0])) == (0.5 + 3.0) / 2
    assert fallen(first, torch.ones(3), first + 20, torch.ones(3)) is None


def test_aer_replays_and_fills_the_memory_in_turns():
    learner = tiny_learner(sampler="rsv", trainer="aer", aer_block=2, memory=64)
    held, replayed = [], []
    observe = learner.trainer.observe
    learner.trainer.observe = lambda batch: replayed.append(batch.replay is not None) or observe(batch)
    for start in range(0, 32, 4):
        learner.observe(IMAGES[start : start + 4], LABELS[start : start + 4])
        held.append(len(learner.memory))
    assert replayed == [False, False, True, True, False, False, True, True]
    assert held == [4, 8, 8, 8, 12, 16, 16, 16]


def test_cnll_purifies_labels_that_are_no_further_from_predictions_than_on_average():
    logits, labels = torch.randn(12, 5), torch.tensor([0, 1, 3, 0, 1, 3, 0, 1, 3, 0, 1, 3])
    distances = []
    for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
        p = dict(zip((0, 1, 3), reference.softmax([row[c] for c in (0, 1, 3)]), strict=True))  # 2 and 4 did not come
        distances.append(reference.divergence([p.get(c, 0.0) for c in range(5)], label))
    mean = sum(distances) / 12
    assert purified(logits, labels).tolist() == [d <= mean for d in distances]
    p = logits.softmax(dim=1)
    expected = [reference.divergence(row, label) for row, label in zip(p.tolist(), labels.tolist(), strict=True)]
    assert label_divergence(p, labels).tolist() == pytest.approx(expected, 1e-5)


def test_cnll_learns_doubtful_samples_without_their_labels(monkeypatch):
    """One step of MixMatch as a loop, without mixing."""
    trainer = tiny_trainer("cnll", batch_size=4, cnll_unlabelled_weight=2.0, ramp_epochs=1)
    verdicts = torch.tensor([1.0, 0.0] * 4)[:, None]
    memory = replace(REPLAY, vectors=verdicts)
    monkeypatch.setattr(augment, "draw_mixup_plan", unmixed)
    weak = train_logits(trainer, REPLAY.images[1::2]).softmax(dim=1).double() ** (1 / trainer.options.sharpen)
    guess = (weak / weak.sum(dim=1, keepdim=True)).tolist()
    everything = torch.cat([REPLAY.images[::2]] * 2 + [REPLAY.images[1::2]] * 2)
    # Guessing has moved no weight, and BatchNorm in training goes by the batch alone.
    p = train_logits(trainer, everything).softmax(dim=1).double().tolist()
    l_x = -sum(math.log(p[i][int(REPLAY.labels[2 * i])]) for i in range(4)) / 4
    l_u = sum((a - b) ** 2 for i in range(4) for a, b in zip(p[8 + i], guess[i], strict=True)) / 12
    mean = [sum(row[c] for row in p) / 16 for c in range(3)]
    penalty = sum(math.log(1 / 3 / m) for m in mean) / 3
    steps = watch_steps(trainer, monkeypatch)
    trainer.memory_epoch(memory, LABELLED_EPOCHS)
    trainer.memory_epoch(memory, LABELLED_EPOCHS + 1)
    assert [loss for _, loss in steps] == pytest.approx([l_x + penalty, l_x + 2 * l_u + penalty], 1e-4)


def unmixed(steps: int, n: int, alpha: float, generator: torch.Generator) -> torch.Tensor:
    lam = torch.ones(steps, 1, dtype=torch.float64).view(torch.int64)
    return torch.cat([torch.arange(n).repeat(steps, 1), lam], dim=1)


def test_cnll_judges_what_waited_together_and_keeps_the_verdict():
    learner = tiny_learner(sampler="cnll", trainer="cnll", memory=24)
    feed(learner, IMAGES[:12], LABELS[:12], 4)
    held = learner.memory.samples
    assert len(held) == 12
    logits = learner.trainer.models[0].outputs(held.images).logits
    assert torch.equal(held.vectors[:, 0] > 0.5, purified(logits, held.labels))
    assert torch.equal(held.vectors[:, 0], held.notes)


def test_the_memory_of_cnll_has_purified_and_doubtful_samples():
    sampler = SAMPLERS["cnll"](recipe("paper", cnll_noisy=0.25))
    pool = replace(as_samples(*patterns(24)), notes=(torch.arange(24) % 2).float())
    kept = sampler.choose(pool, 8, 12, moment(FixedNetwork(3), 3))
    assert pool.notes[kept].sum() == 9
    only = replace(pool, notes=torch.zeros(24))
    assert len(sampler.choose(only, 8, 12, moment(FixedNetwork(3), 3))) == 12


@pytest.mark.parametrize(
    ("sampler", "trainer", "options"),
    [
        ("clib", "clib", {"clib_period": 1, "clib_trials": 2}),
        ("abs", "aer", {"aer_block": 1}),
        ("gss", "mir", {"mir_candidates": 12, "batch_size": 4}),
        ("clib", "derpp", {}),
        ("cnll", "cnll", {}),
    ],
)
def test_a_save_on_the_way_changes_nothing(sampler, trainer, options):
    assert not find_fault("sampler", sampler, trainer=trainer, **options)

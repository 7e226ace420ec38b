"""The samplers of GSS, CLIB and ABS against the formulas of their authors, as loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from puridiver.memory.abs import AsymmetricSampling, drop_chances
from puridiver.memory.clib import SampleImportance, moved_importance, survivors
from puridiver.memory.gss import FIRST_SCORE, GradientSelection, gradient_scores
from puridiver.options import Options
from tests import reference
from tests.learner_samples import as_samples, patterns, tiny_trainer
from tests.memory.fakes import FixedNetwork, empty_memory, moment, pass_batch, pass_stream, stream, with_labels


def test_a_gradient_score_is_one_plus_the_largest_cosine_of_whole_gradients():
    model, samples = tiny_trainer("plain").models[0], as_samples(*patterns(9))
    found = gradient_scores(model, samples.images, samples.labels, 4)
    network, vectors = model.network.eval(), []
    for image, label in zip(samples.images, samples.labels, strict=True):
        network.zero_grad()
        F.cross_entropy(model.logits(image[None], train_norm=False), label[None]).backward()
        vectors.append(np.concatenate([p.grad.numpy().ravel() for p in network.parameters()]).astype(np.float64))
    expected = [1 + max(reference.cosine(vectors[i], other) for other in vectors[:4]) for i in range(4, 9)]
    assert found.tolist() == pytest.approx(expected, abs=1e-4)


def test_gss_follows_its_algorithm(monkeypatch):
    """Algorithm 2 as a loop, with the draws that the sampler makes."""
    everything, capacity, network = stream(40, 3), 6, FixedNetwork(3)
    scores = torch.rand(40, generator=torch.Generator().manual_seed(1)) * 1.4
    monkeypatch.setattr(GradientSelection, "scores", lambda self, pool, n_old, now: scores[pool.arrivals[n_old:]])
    memory, generator = empty_memory(GradientSelection(Options()), capacity), torch.Generator().manual_seed(0)
    for batch in everything.split(8):
        pass_batch(memory, batch, moment(network, 3, generator=generator))
    draws, held = torch.Generator().manual_seed(0), list[int]()
    for row in range(40):
        if len(held) < capacity:
            held.append(row)
        elif scores[row] < 1:
            i = int(torch.multinomial(scores[held].double(), 1, generator=draws))
            c_i, c = float(scores[held[i]]), float(scores[row])
            if float(torch.rand((), generator=draws)) < c_i / (c_i + c):
                held[i] = row
    assert memory.samples.arrivals.tolist() == held
    assert torch.equal(memory.samples.notes, scores[held])


def test_the_first_samples_of_gss_have_the_first_score():
    memory = pass_stream(GradientSelection(Options()), stream(4, 2), 4, 4)
    assert memory.samples.notes.tolist() == pytest.approx([FIRST_SCORE] * 4)


def test_importance_moves_with_the_fall_of_the_loss():
    importance, trained = torch.rand(7), torch.tensor([1, 0, 0, 1, 1, 0, 0], dtype=torch.bool)
    found = moved_importance(importance, torch.tensor(0.3), trained, 0.9)
    assert found.tolist() == pytest.approx(reference.importance_after(importance.tolist(), 0.3, [0, 3, 4], 0.9))


def test_clib_measures_the_fall_of_the_memorys_loss_and_credits_what_was_replayed():
    sampler, capacity = SampleImportance(Options()), 12
    memory, everything = empty_memory(sampler, capacity), stream(16, 3)
    first, second = FixedNetwork(3, seed=0), FixedNetwork(3, seed=1)
    pass_batch(memory, everything.take(slice(0, 8)), moment(first, 3))
    held = memory.samples
    losses = [F.cross_entropy(net.outputs(held.images)[1], held.labels, reduction="none") for net in (first, second)]
    now = replace(moment(second, 3), replayed=torch.tensor([2, 5, 99]))  # 99 was evicted
    pass_batch(memory, everything.take(slice(8, 12)), now)
    fall = float((losses[0] - losses[1]).mean())
    expected = reference.importance_after([0.0] * 8, fall, [2, 5], 0.9)
    assert memory.samples.notes[:8, 0].tolist() == pytest.approx(expected, abs=1e-6)
    torch.testing.assert_close(memory.samples.notes[:8, 1], losses[1])


def test_the_largest_class_drops_its_least_important_sample_for_each_new_one():
    labels, importance = [0, 0, 0, 1, 1, 2, 1], [0.3, 0.1, 0.2, 0.5, 0.6, 0.9, 0.0]
    kept = survivors(labels, importance, 5, 5)
    # The new class 2 takes the place of row 1 (of the largest class, 0); then 0 and 1 are level with the newcomer of
    # class 1, whose importance is the mean of its class, and so class 1 has three and drops row 3.
    assert kept == [0, 2, 4, 5, 6]
    assert importance[5] == pytest.approx(np.mean([0.3, 0.1, 0.2, 0.5, 0.6]))
    assert importance[6] == pytest.approx(0.55)


def test_high_losses_of_current_classes_and_low_ones_of_others_make_room():
    losses, current = torch.rand(9, dtype=torch.float64), torch.tensor([1, 0, 0, 1, 1, 1, 0, 0, 1], dtype=torch.bool)
    expected = reference.asymmetric_drop_chances(losses.tolist(), current.tolist())
    assert drop_chances(losses, current).tolist() == pytest.approx(expected)
    assert drop_chances(torch.ones(4).double(), torch.ones(4, dtype=torch.bool)).tolist() == [0.25] * 4


def test_a_full_memory_is_offered_the_lowest_losses_of_a_batch():
    sampler, network = AsymmetricSampling(Options(abs_left_out=0.75)), FixedNetwork(2)
    memory = empty_memory(sampler, 4)
    pass_batch(memory, with_labels([0, 1, 0, 1]), moment(network, 2))
    batch = stream(8, 2, seed=3)
    batch = replace(batch, arrivals=batch.arrivals + 4)
    losses = F.cross_entropy(network.outputs(batch.images)[1], batch.labels, reduction="none")
    pass_batch(memory, batch, moment(network, 2, seen_before=4))
    offered = set((losses.argsort()[:2] + 4).tolist())
    assert offered == set(memory.samples.arrivals.tolist()) - {0, 1, 2, 3}
    assert memory.samples.notes.isfinite().all()


def test_a_full_abs_memory_takes_what_is_offered_by_a_reservoirs_chance() -> None:
    sampler, generator = AsymmetricSampling(Options(abs_left_out=0.75)), torch.Generator().manual_seed(0)
    early, late = (moment(FixedNetwork(3), 3, seen_before=seen, generator=generator) for seen in (30, 200))
    assert all(sampler._accepts(early, nth, capacity=10) for nth in range(8))  # a quarter of 38 was offered so far
    taken = sum(sampler._accepts(late, 0, capacity=10) for _ in range(2000))
    assert taken / 2000 == pytest.approx(10 / 50, abs=0.04)

"""The sieve: a weighted reservoir of each class, against a loop and against its own statistics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from puridiver.memory.sieve import LEAST, Sieve
from puridiver.options import Options
from tests.learner_samples import patterns, tiny_learner
from tests.memory.fakes import FixedNetwork, checked, empty_memory, moment, pass_batch, stream, with_labels


def test_a_sample_keeps_an_exponential_draw_and_the_probability_that_its_label_is_right() -> None:
    batch, p_right = stream(4, 2), [0.5, 1.0, float("nan"), 0.0]
    now = replace(moment(FixedNetwork(2), 2), p_right=torch.tensor(p_right))
    found = Sieve(Options()).note_arrivals(batch, now)
    draws = torch.empty(4).exponential_(generator=torch.Generator().manual_seed(0))
    assert found[:, 0].tolist() == draws.tolist()
    assert found[:, 1].tolist() == [0.5, 1.0, 1.0, 0.0]  # what nothing is known of counts as right


def test_the_largest_draw_over_a_power_of_the_probability_goes_first() -> None:
    notes = torch.tensor([[1.0, 1.0], [0.3, 0.5], [3.0, 1.0], [0.01, 0.0]])
    pool, sieve = replace(with_labels([0] * 4), notes=notes), Sieve(Options(sieve_power=2.0))
    ranks = [1.0, 0.3 / 0.25, 3.0, 0.01 / LEAST]
    for capacity in (3, 2, 1):
        now = moment(FixedNetwork(1), 1)
        kept = sieve.choose(pool, 4, capacity, now).tolist()
        assert kept == sorted(np.argsort(ranks)[:capacity].tolist())


def test_a_label_that_a_person_has_checked_counts_as_right() -> None:
    held = replace(with_labels([0, 0]), notes=torch.tensor([[0.5, 0.1], [0.6, 1.0]]))
    now = moment(FixedNetwork(1), 1)
    assert Sieve(Options()).choose(held, 2, 1, now).tolist() == [1]
    assert Sieve(Options()).choose(checked(held, torch.tensor([True, False])), 2, 1, now).tolist() == [0]


def test_a_label_that_looks_wrong_when_it_is_judged_again_goes_and_what_looks_right_keeps_its_draw() -> None:
    held = replace(with_labels([0, 0]), notes=torch.tensor([[0.5, 1.0], [0.6, 1.0]]))
    sieve = Sieve(Options())
    notes = sieve.judged_again(held, torch.tensor([0.2, 0.9]))
    assert notes[:, 0].tolist() == held.notes[:, 0].tolist()
    now = moment(FixedNetwork(1), 1)
    assert sieve.choose(held, 2, 1, now).tolist() == [0]
    assert sieve.choose(replace(held, notes=notes), 2, 1, now).tolist() == [1]


@pytest.mark.parametrize(("power", "expected"), [(0.0, 0.5), (4.0, 0.94)])
def test_the_memory_is_a_weighted_sample_of_the_whole_stream(power: float, expected: float) -> None:
    """Of 400 samples of a class, half with p = 0.5: 40 are a small part, so their odds are those of the weights."""
    everything, generator = stream(400, 1), torch.Generator().manual_seed(0)
    looks_right = everything.arrivals % 2 == 0
    rates, early = [], []
    for _ in range(20):
        memory = empty_memory(Sieve(Options(sieve_power=power)), 40)
        for rows in torch.arange(400).split(50):
            now = moment(FixedNetwork(1), 1, generator=generator)
            pass_batch(memory, everything.take(rows), replace(now, p_right=torch.where(looks_right[rows], 1.0, 0.5)))
        rates.append(float(looks_right[memory.samples.arrivals].float().mean()))
        early.append(float((memory.samples.arrivals < 200).float().mean()))
    assert np.mean(rates) == pytest.approx(expected, abs=0.05)
    assert np.mean(early) == pytest.approx(0.5, abs=0.08)


def test_it_keeps_right_labels_whether_or_not_somebody_wants_verdicts() -> None:
    images, true = patterns(240)
    given = np.where(np.arange(240) % 4 == 3, (true + 1) % 3, true)
    learner = tiny_learner(memory=30, sampler="sieve")
    for start in range(0, 240, 8):
        learner.observe(images[start : start + 8], given[start : start + 8], judge=False)
    held = learner.memory.samples
    assert (held.labels.numpy() == true[held.arrivals.numpy()]).mean() > 0.85  # of the stream 0.75

"""NTD: the largest class loses its highest loss, and that loss is measured once, on arrival."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor

from puridiver.memory import Samples
from puridiver.memory.ntd import NTDSampler
from puridiver.options import Options
from tests import reference
from tests.learner_samples import patterns, tiny_learner
from tests.memory.fakes import FixedNetwork, moment, stream, with_labels


def noted(labels: list[int], notes: list[float]) -> Samples:
    return dataclasses.replace(with_labels(labels), notes=torch.tensor(notes))


def choose(pool: Samples, capacity: int, n_classes: int, seed: int = 0) -> list[int]:
    now = moment(FixedNetwork(n_classes), n_classes, 50, torch.Generator().manual_seed(seed))
    return NTDSampler(Options()).choose(pool, capacity, capacity, now).tolist()


@pytest.mark.parametrize("seed", range(2))
def test_every_drop_follows_the_rule(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels, notes = rng.integers(3, size=16).tolist(), rng.random(16).tolist()
    pool = noted(labels, notes)
    alive = set(range(16))
    for capacity in range(15, 9, -1):
        sub = pool.take(torch.tensor(sorted(alive)))
        kept = {sorted(alive)[row] for row in choose(sub, capacity, 3, seed)}
        (dropped,) = alive - kept
        own = [i for i in alive if labels[i] == labels[dropped]]
        assert len(own) == max(sum(labels[i] == c for i in alive) for c in range(3))
        assert notes[dropped] == max(notes[i] for i in own)
        alive = kept


@pytest.mark.parametrize("views", [1, 3])
def test_the_note_is_the_mean_loss_over_augmented_views(views: int) -> None:
    network, batch = FixedNetwork(3), stream(5, 3)
    shown: list[Tensor] = []

    def roll_each_copy_further(images: Tensor) -> Tensor:
        shown.extend(copy.roll(number, dims=3) for number, copy in enumerate(images.split(len(batch))))
        return torch.cat(shown)

    now = dataclasses.replace(moment(network, 3), strong_view=roll_each_copy_further)
    notes = NTDSampler(Options(ntd_views=views)).note_arrivals(batch, now)
    assert len(shown) == views
    logits = [network.outputs(view)[1].double() for view in shown]
    for i, label in enumerate(batch.labels.tolist()):
        losses = [reference.cross_entropy(seen[i].tolist(), reference.one_hot(label, 3)) for seen in logits]
        assert float(notes[i]) == pytest.approx(sum(losses) / views, rel=1e-5)


def test_its_views_are_drawn_by_the_samplers_generator_so_that_the_trainer_learns_as_with_any_other() -> None:
    states = []
    for sampler in ("ntd", "rsv"):
        learner = tiny_learner(memory=60, sampler=sampler, replay="never")
        images, labels = patterns(24)
        learner.observe(images, labels)
        states.append((learner.generators["trainer"].get_state(), learner.predict_proba(images)))
    assert torch.equal(states[0][0], states[1][0])
    assert np.array_equal(states[0][1], states[1][1])

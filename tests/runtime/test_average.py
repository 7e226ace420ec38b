"""The moving average of the weights: its recursion, when it predicts, and what growth keeps."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from puridiver import Learner
from puridiver.augment import to_float
from tests.learner_samples import SHAPE, differing, feed, patterns, tiny_learner

DECAY = 0.8


def averaging(**settings) -> Learner:
    return tiny_learner(**{"online_average": DECAY, "online_prediction": "network", **settings})


def weights(learner: Learner) -> dict[str, Tensor]:
    """The network's own weights and statistics."""
    state = learner.trainer.networks[0].state_dict()
    return {name: value.clone() for name, value in state.items() if value.is_floating_point()}


def held(learner: Learner) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in learner.trainer.models[0].average.items()}


def observe(learner: Learner, n_batches: int = 4, seed: int = 0) -> None:
    feed(learner, *patterns(8 * n_batches, seed=seed))


def test_the_average_is_the_recursion_over_the_steps() -> None:
    learner = averaging(online_steps=1)
    expected = weights(learner)
    images, labels = patterns(400)
    for step in range(50):
        rows = slice(8 * step, 8 * step + 8)
        learner.observe(images[rows], labels[rows])
        share = max(1 - DECAY, 9 / (10 + step))  # of the newest weights: at first the average follows closely
        expected = {name: (1 - share) * expected[name] + share * value for name, value in weights(learner).items()}
    found = held(learner)
    assert set(found) == set(expected)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value)


def test_the_average_predicts_online_and_the_network_after_memory_training() -> None:
    learner, images = averaging(), patterns(10, seed=3)[0]
    observe(learner)
    seen = learner.predict_proba(images)
    network = learner.trainer.networks[0]
    seen_weights = learner.trainer.models[0].class_weights
    assert torch.equal(seen_weights, held(learner)["head.linear.weight"])
    assert not torch.equal(seen_weights, network.head.linear.weight)
    own = weights(learner)
    network.load_state_dict(held(learner), strict=False)
    learner.trainer.models[0].through_average = False
    as_it_is = learner.predict_proba(images, as_it_is=True)
    np.testing.assert_allclose(seen, as_it_is, atol=1e-6)  # a network of the averaged weights
    network.load_state_dict(own, strict=False)
    assert not np.allclose(seen, learner.predict_proba(images, as_it_is=True), atol=1e-4)
    learner.trainer.models[0].through_average = True
    learner.consolidate()
    assert differing(held(learner), weights(learner)) == []


def test_memory_training_starts_from_the_average() -> None:
    learner = averaging(epochs=1, lr=0.0, weight_decay=0.0)
    observe(learner)
    before = held(learner)
    learner.consolidate()
    moved = set(differing(before, weights(learner)))
    assert moved
    assert all("running" in name for name in moved)  # at a rate of 0 only BatchNorm's statistics move


def test_growth_keeps_the_average_of_what_was_there() -> None:
    learner = Learner(None, SHAPE, 12, device="cpu", online_average=DECAY, epochs=1, batch_size=8)
    images, labels = patterns(24, n_classes=2)
    learner.observe(images, labels)
    before = held(learner)
    learner.set_classes([*learner.classes, 2])
    after = held(learner)
    assert len(after["head.linear.weight"]) == 3
    for name, value in before.items():
        assert torch.equal(after[name][: len(value)], value)


@pytest.mark.parametrize("change", ["none", "grow", "drop", "load"])
def test_a_pass_by_the_average_is_that_of_a_network_with_those_weights(change: str) -> None:
    learner = Learner(None, SHAPE, 12, device="cpu", online_average=DECAY, epochs=1, batch_size=8)
    observe(learner)
    model = learner.trainer.models[0]
    if change == "grow":
        learner.set_classes([*learner.classes, 3])
    elif change == "drop":
        learner.remove_class(1)
    elif change == "load":
        model.load_state(0, {name: value.clone() for name, value in model.state(0).items()})
    observe(learner, n_batches=2, seed=1)
    x = torch.from_numpy(patterns(10, seed=3)[0]).permute(0, 3, 1, 2).contiguous()
    with torch.no_grad():
        expected = functional_call(copy.deepcopy(model.network).eval(), held(learner), (to_float(x),))
    assert torch.equal(model.outputs(x).logits, expected.logits)
    assert not torch.allclose(model.network.eval()(to_float(x)).logits, expected.logits)

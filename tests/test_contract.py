"""Every sampler, trainer and network of the package keeps the contract of `method_check`: a new file is tested too."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from puridiver.learner.method_check import find_fault
from puridiver.memory import SAMPLERS
from puridiver.nets import NETWORKS
from puridiver.options import Options, class_options
from puridiver.trainers import TRAINERS
from tests.learner_samples import feed, patterns, tiny_learner

QUICK = {"spr_budget": 0.0005}  # options that make a method fast, for methods that have them
LARGE = 1_000_000  # parameters: the whole trial of such a network would take too long


def quick(kind: type) -> dict[str, Any]:
    return {name: value for name, value in QUICK.items() if name in class_options(kind)}


@pytest.mark.parametrize("name", SAMPLERS)
def test_sampler(name: str) -> None:
    assert not find_fault("sampler", name, **quick(SAMPLERS[name]))


@pytest.mark.parametrize("name", TRAINERS)
def test_trainer(name: str) -> None:
    assert not find_fault("trainer", name, **quick(TRAINERS[name]))


@pytest.mark.parametrize("name", NETWORKS)
def test_network(name: str) -> None:
    with torch.device("meta"):
        network = NETWORKS[name](3, (8,) if NETWORKS[name].takes_vectors else (8, 8, 3), Options())
    if sum(p.numel() for p in network.parameters()) <= LARGE:
        assert not find_fault("network", name)


# Neither knows the other: a third of all pairs, in which each meets several of the others, shows that they fit.
PAIRS = [(s, t) for i, s in enumerate(SAMPLERS) for j, t in enumerate(TRAINERS) if (i + j) % 3 == 0]


@pytest.mark.parametrize(("sampler", "trainer"), PAIRS)
def test_a_pair_learns_predicts_and_takes_a_new_class(sampler: str, trainer: str) -> None:
    images, labels = patterns(24)
    learner = feed(tiny_learner([0, 1], sampler=sampler, trainer=trainer, grow=True), images, labels)
    learner.consolidate()
    assert learner.classes == [0, 1, 2]
    if sampler != "abs":  # goes by loss alone, so that a tiny memory may lose a class
        assert set(learner.memory.samples.labels.tolist()) == {0, 1, 2}
    probabilities = learner.predict_proba(images)
    assert probabilities.shape == (24, 3)
    assert abs(probabilities.sum(1) - 1).max() < 1e-4

"""Measurements against scikit-learn and loops."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn import metrics as sklearn_metrics

from puridiver import Learner
from puridiver.data.base import UNKNOWN, WRONG
from puridiver.files import to_json
from puridiver.metrics.measures import accuracy, confusion_matrix, memory_metrics, split_metrics, split_trace
from puridiver.trainers import SET_NAMES, Sets
from tests import reference
from tests.learner_samples import differing, patterns, tensors_of, tiny_learner

RNG = np.random.default_rng(0)
TRUE, GUESS = RNG.integers(5, size=300), RNG.integers(5, size=300)
CONFUSION = confusion_matrix(torch.from_numpy(GUESS), torch.from_numpy(TRUE), 5)
GIVEN, OF_MEMORY = torch.from_numpy(RNG.integers(4, size=30)), torch.from_numpy(RNG.integers(3, size=30))
FEATURES = torch.from_numpy(RNG.normal(size=(30, 5)))


def test_confusion_and_accuracies_are_scikit_learns_to_the_last_digit():
    """A table of results is read back and compared: 83 of 100 is 0.83, not 0.8299999833."""
    np.testing.assert_array_equal(CONFUSION.numpy(), sklearn_metrics.confusion_matrix(TRUE, GUESS))
    assert accuracy(CONFUSION) == sklearn_metrics.accuracy_score(TRUE, GUESS)
    assert accuracy(torch.tensor([[83, 17], [0, 0]])) == 0.83


def test_classes_without_images_have_room_and_no_accuracy():
    assert confusion_matrix(torch.tensor([0, 3]), torch.tensor([1, 1]), 4)[1].tolist() == [1, 0, 0, 1]
    assert math.isnan(accuracy(torch.zeros(3, 3, dtype=torch.int64)))
    assert math.isnan(accuracy(torch.zeros(2, 2, dtype=torch.int64), [0]))


def test_the_accuracy_on_a_group_of_classes_against_a_loop():
    group = (0, 3)
    hits = [t == g for t, g in zip(TRUE.tolist(), GUESS.tolist(), strict=True) if t in group]
    assert accuracy(CONFUSION, group) == pytest.approx(sum(hits) / len(hits))


def test_memory_metrics_against_loops():
    found = memory_metrics(GIVEN, OF_MEMORY, 4, FEATURES)
    given, true = GIVEN.tolist(), OF_MEMORY.tolist()
    assert found["memory_size"] == 30
    assert found["memory_purity"] == sum(g == t for g, t in zip(given, true, strict=True)) / 30
    assert found["memory_per_class"] == [given.count(c) for c in range(4)]
    assert found["memory_per_true_class"] == [true.count(c) for c in range(4)]
    assert found["memory_diversity"] == pytest.approx(reference.diversity(FEATURES.numpy(), true, 4))
    assert "memory_diversity" not in memory_metrics(GIVEN, OF_MEMORY, 4)


def test_memory_metrics_where_nothing_or_little_is_known():
    empty = torch.empty(0, dtype=torch.int64)
    found = memory_metrics(empty, empty, 3)
    assert (found["memory_size"], found["memory_per_class"]) == (0, [0, 0, 0])
    assert math.isnan(found["memory_purity"])
    partly = torch.where(torch.arange(30) < 10, OF_MEMORY, UNKNOWN)
    found = memory_metrics(GIVEN, partly, 4)
    assert found["memory_purity"] == pytest.approx(float((GIVEN == OF_MEMORY)[:10].double().mean()))
    assert found["memory_per_true_class"] is None
    assert memory_metrics(GIVEN, torch.full((30,), UNKNOWN), 4)["memory_purity"] is None


def test_a_label_may_be_known_to_be_wrong_and_no_more():
    given, true = torch.tensor([0, 1, 2, 2, 1]), torch.tensor([0, WRONG, UNKNOWN, 2, WRONG])
    found = memory_metrics(given, true, 3)
    assert (found["memory_purity"], found["memory_per_true_class"]) == (0.5, None)
    sets = Sets(torch.arange(5), torch.tensor([0, 0, 1, 1, 2]), torch.tensor([0, 1, 2, 2, 1]))
    found = split_metrics(sets, given, true)
    assert [found[f"{name}_precision"] for name in SET_NAMES] == [0.5, 1.0, 1.0]
    # Whether the prediction is right where the label is wrong, nobody can say.
    sets = Sets(torch.arange(5), torch.ones(5, dtype=torch.int64), sets.guesses)
    assert split_metrics(sets, given, true)["relabel_precision"] is None


@pytest.mark.parametrize("known", [30, 12])
def test_the_precision_of_each_set_against_a_loop(known):
    codes, guesses = (torch.from_numpy(RNG.integers(3, size=30)) for _ in range(2))
    true = torch.where(torch.arange(30) < known, OF_MEMORY, UNKNOWN)
    found = split_metrics(Sets(torch.arange(30), codes, guesses), GIVEN, true)
    right: dict[int, list[bool]] = {0: [], 1: [], 2: []}
    for code, given, guess, truth in zip(*(x.tolist() for x in (codes, GIVEN, guesses, true)), strict=True):
        if truth != UNKNOWN:
            right[code].append({0: given == truth, 1: guess == truth, 2: given != truth}[code])
    for code, name in enumerate(SET_NAMES):
        assert found[f"{name}_size"] == int((codes == code).sum())
        assert found[f"{name}_precision"] == pytest.approx(np.mean(right[code]))


# The division of the memory ----------------------------------------------------------------------------------------


def trained(trainer: str) -> tuple[Learner, torch.Tensor]:
    """A learner, and true labels of its memory of which every third differs from the given one."""
    learner = tiny_learner(trainer=trainer)
    learner.observe(*patterns(24))
    learner.consolidate()
    given = learner.memory.samples.labels
    return learner, torch.where(torch.arange(len(given)) % 3 == 0, (given + 1) % 3, given)


def test_the_trace_of_a_split_is_what_the_network_gives_now():
    learner, true = trained("puridiver")
    samples, before = learner.memory.samples, tensors_of(learner)
    logits = learner.trainer.models[0].outputs(samples.images).logits
    trace = split_trace(learner.split(), samples.labels, true)
    expected = F.cross_entropy(logits, samples.labels, reduction="none")
    np.testing.assert_allclose(trace["losses"], expected.numpy(), atol=1e-4)
    highest = logits.softmax(dim=1).max(dim=1).values
    np.testing.assert_allclose(trace["uncertainties"], 1 - highest.numpy(), atol=1e-4)
    assert trace["right"] == (samples.labels == true).int().tolist()
    assert trace["guess_right"] == (logits.argmax(dim=1) == true).int().tolist()
    sets = {row.arrival: row.set for row in learner.audit()}
    assert [SET_NAMES[code] for code in trace["sets"]] == [sets[a] for a in samples.arrivals.tolist()]
    for name in ("loss_mixture", "uncertainty_mixture"):
        assert sum(trace[name]["weights"]) == pytest.approx(1)
    assert differing(before, tensors_of(learner)) == []


def test_a_trace_is_strict_json_also_where_the_network_has_failed_and_labels_are_unknown():
    learner, true = trained("plain")
    true[:2], true[2] = UNKNOWN, WRONG
    with torch.no_grad():
        next(learner.trainer.networks[0].parameters()).fill_(float("nan"))
    trace = json.loads(to_json(split_trace(learner.split(), learner.memory.samples.labels, true)))
    assert trace["losses"] == [None] * 12
    assert trace["right"][:2] == trace["guess_right"][:2] == [None, None]
    assert None not in trace["right"][2:]
    assert (trace["right"][2], trace["guess_right"][2]) == (0, None)

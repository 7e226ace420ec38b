"""Accuracies against scikit-learn and against loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn import metrics as sklearn_metrics

from puridiver.metrics import (
    accuracy,
    anytime_area,
    backward_transfer,
    class_accuracies,
    confusion_matrix,
    forgetting,
    group_accuracies,
)

RNG = np.random.default_rng(0)
TRUE, GUESS = RNG.integers(5, size=300), RNG.integers(5, size=300)
CONFUSION = confusion_matrix(torch.from_numpy(GUESS), torch.from_numpy(TRUE), 5)


def test_the_confusion_matrix_is_scikit_learns():
    np.testing.assert_array_equal(CONFUSION.numpy(), sklearn_metrics.confusion_matrix(TRUE, GUESS))


def test_the_confusion_matrix_has_room_for_classes_that_never_come():
    found = confusion_matrix(torch.tensor([0, 3]), torch.tensor([1, 1]), 4)
    assert found.shape == (4, 4)
    assert found[1].tolist() == [1, 0, 0, 1]
    assert int(found.sum()) == 2


def test_accuracy_is_scikit_learns_to_the_last_digit():
    """A table of results is read back and compared: 83 of 100 is 0.83, not 0.8299999833."""
    assert accuracy(CONFUSION) == sklearn_metrics.accuracy_score(TRUE, GUESS)
    assert accuracy(torch.tensor([[83, 17], [0, 0]])) == 0.83


def test_accuracy_of_nothing_is_nan():
    assert math.isnan(accuracy(torch.zeros(3, 3, dtype=torch.int64)))


def test_class_accuracies_are_scikit_learns_recalls():
    expected = sklearn_metrics.recall_score(TRUE, GUESS, average=None)
    assert class_accuracies(CONFUSION) == pytest.approx(expected.tolist())


def test_a_class_without_images_has_no_accuracy():
    found = class_accuracies(torch.tensor([[2, 0], [0, 0]]))
    assert found[0] == 1
    assert math.isnan(found[1])


def test_group_accuracies_against_a_loop():
    groups = ((0, 3), (1,), (2, 4))
    expected = []
    for group in groups:
        hits = [t == g for t, g in zip(TRUE.tolist(), GUESS.tolist(), strict=True) if t in group]
        expected.append(sum(hits) / len(hits))
    assert group_accuracies(CONFUSION, groups) == pytest.approx(expected)
    assert math.isnan(group_accuracies(torch.zeros(2, 2, dtype=torch.int64), [(0,)])[0])


def test_forgetting_by_hand():
    after_task = [
        [0.9, 0.1, 0.0],
        [0.6, 0.8, 0.1],
        [0.7, 0.5, 0.9],
    ]
    # Task 0: best 0.9 before the end, 0.7 at the end. Task 1: 0.8, then 0.5. The last task cannot be forgotten.
    assert forgetting(after_task) == pytest.approx((0.2 + 0.3) / 2)


def test_forgetting_counts_from_the_end_of_a_task_and_may_be_negative():
    assert forgetting([[0.5, 0.9], [0.8, 0.2]]) == pytest.approx(-0.3)
    # What task 1 had before its own end does not count.
    assert forgetting([[0.5, 0.9, 0.0], [0.4, 0.6, 0.0], [0.3, 0.5, 0.7]]) == pytest.approx((0.2 + 0.1) / 2)


def test_a_single_task_forgets_nothing_that_could_be_measured():
    assert math.isnan(forgetting([[0.4]]))


def test_backward_transfer_by_hand():
    after_task = [[0.9, 0.1, 0.0], [0.8, 0.7, 0.1], [0.6, 0.9, 0.8]]
    assert backward_transfer(after_task) == pytest.approx(((0.6 - 0.9) + (0.9 - 0.7)) / 2)
    assert math.isnan(backward_transfer([[0.9]]))
    assert backward_transfer([[math.nan, 0.5, 0.1], [0.4, 0.5, 0.1], [0.4, 0.2, 0.3]]) == pytest.approx(-0.3)


def test_the_anytime_area_by_hand():
    curve = [(10, 0.2), (20, 0.4), (20, 0.8), (40, 0.6)]
    by_hand = (10 * 0.3 + 0 + 20 * 0.7) / 30
    assert anytime_area(curve) == pytest.approx(by_hand)


def test_the_anytime_area_is_the_mean_of_a_straight_line():
    curve = [(seen, 0.1 + seen / 1000) for seen in (100, 130, 400, 700)]
    assert anytime_area(curve) == pytest.approx(0.1 + 0.4)
    assert anytime_area([(5, 0.3)]) == 0.3
    assert math.isnan(anytime_area([]))

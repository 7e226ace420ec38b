"""How good a ranking is, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from puridiver.metrics.audit import list_quality, ranking_quality

# Most doubtful first: wrong, right, wrong, wrong, wrong, then six right ones.
WRONG = np.array([1, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0], dtype=bool)
P = np.linspace(0, 1, 11)


def test_precision_and_recall_at_every_depth():
    found = ranking_quality(P, WRONG)
    assert found["precision_at_0.25"] == 1  # the first of four
    assert found["precision_at_0.5"] == 0.5  # two of four
    assert found["precision_at_1"] == found["recall_at_1"] == 0.75
    assert found["recall_at_1.5"] == 1
    assert found["precision_at_1.5"] == 4 / 6
    assert found["auc"] == pytest.approx(25 / 28)  # pairs in the right order
    assert found["average_precision"] == pytest.approx((1 + 2 / 3 + 3 / 4 + 4 / 5) / 4)


def test_a_ranking_needs_both_kinds():
    with pytest.raises(ValueError, match="but 0 of 11 are wrong"):
        ranking_quality(P, WRONG & False)


def test_a_list_is_judged_by_what_is_on_it():
    assert list_quality(P < 0.25, WRONG) == {"suspects": 3, "suspects_precision": 2 / 3, "suspects_recall": 0.5}
    assert list_quality(P < 0, WRONG)["suspects_precision"] == 0

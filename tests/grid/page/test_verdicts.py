"""Verdicts by hand."""

from __future__ import annotations

import math

import pytest

from puridiver.grid.page.verdicts import at_least, compare, compare_pairs, difference, within
from puridiver.grid.table import Entry, make_entry

NOT_RUN = Entry(None, None, 0, "")


def entry(mean: float, deviation: float | None = 1.0, seeds: int = 3) -> Entry:
    return Entry(mean, deviation, seeds, "")


@pytest.mark.parametrize(
    ("mean", "verdict"), [(57.1, "yes"), (55.1, "yes"), (59.1, "yes"), (55.09, "no"), (59.11, "no")]
)
def test_within_two_points_of_a_known_figure(mean: float, verdict: str) -> None:
    assert within(entry(mean), "57.1 ± 0.3") == verdict
    assert within(make_entry([{"last_accuracy": mean / 100}]), "57.1") == verdict  # its last bits do not decide


@pytest.mark.parametrize(("mean", "verdict"), [(57.1, "yes"), (70.0, "yes"), (57.09, "no")])
def test_at_least_a_known_figure(mean: float, verdict: str) -> None:
    assert at_least(entry(mean), "57.1") == verdict


def test_what_was_not_run_or_is_not_known_has_no_verdict() -> None:
    assert within(NOT_RUN, "57.1") == at_least(NOT_RUN, "57.1") == "not run"
    assert within(entry(50.0), "") == at_least(entry(50.0), "") == "-"
    assert difference(NOT_RUN, "57.1") is None


def test_two_standard_errors_tell_two_means_apart() -> None:
    error = math.sqrt(1 / 3 + 4 / 3)
    for gap, direction in ((2 * error + 0.01, 1), (2 * error - 0.01, 0), (-2 * error - 0.01, -1)):
        found = compare(entry(50.0 + gap, 1.0), entry(50.0, 2.0))
        assert found.error == pytest.approx(error)
        assert found.direction == direction


def test_one_seed_has_no_standard_error() -> None:
    found = compare(entry(60.0, None, 1), entry(50.0))
    assert (found.difference, found.error, found.direction, found.text) == (10.0, None, None, "+10.00 ± -")


def test_a_comparison_says_which_of_the_two_is_missing() -> None:
    assert not compare(NOT_RUN, entry(50.0)).was_run
    alone = compare(entry(50.0), NOT_RUN)
    assert (alone.was_run, alone.difference, alone.direction) == (True, None, None)


def test_pairs_are_compared_by_the_spread_of_their_own_differences() -> None:
    found = compare_pairs([(60.0, 50.0), (42.0, 30.0), (71.0, 60.0)])  # 10, 12, 11: far closer than the runs
    assert found.difference == 11.0
    assert found.error == pytest.approx(1 / math.sqrt(3))
    assert (compare_pairs([(60.0, 50.0)]).text, compare_pairs([]).text) == ("+10.00 ± -", "-")

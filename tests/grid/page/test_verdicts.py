"""Verdicts by hand."""

from __future__ import annotations

import math

import pytest
import scipy.stats

from puridiver.grid.page.verdicts import at_least, chance_against, compare, difference, error, p_text, within
from puridiver.grid.table import Entry, make_entry

NOT_RUN = Entry(None, None, 0, "")


def entry(mean: float, deviation: float | None = 1.0, seeds: int = 3) -> Entry:
    return Entry(mean, deviation, seeds, "")


@pytest.mark.parametrize(
    ("mean", "verdict"), [(57.1, "yes"), (55.1, "yes"), (59.1, "yes"), (55.09, "no"), (59.11, "no")]
)
def test_within_two_points_of_a_known_figure(mean: float, verdict: str) -> None:
    assert within(entry(mean), "57.1 ± 0.3") == verdict
    assert within(make_entry([{"last_accuracy": mean / 100}] * 2), "57.1") == verdict  # its last bits do not decide


@pytest.mark.parametrize(("mean", "verdict"), [(57.1, "yes"), (70.0, "yes"), (57.09, "no")])
def test_at_least_a_known_figure(mean: float, verdict: str) -> None:
    assert at_least(entry(mean), "57.1") == verdict


def test_an_error_is_of_both_means_where_both_deviations_are_known() -> None:
    ours = entry(60.0, 3.0, 9)
    assert error(ours, "57.1 ± 2.0 (4)") == pytest.approx(math.hypot(1.0, 1.0))
    assert error(ours, "57.1 ± 2.0") == pytest.approx(math.hypot(1.0, 2.0 / math.sqrt(3)))  # the paper's: three runs
    assert error(ours, "57.1") == pytest.approx(1.0)
    assert error(entry(60.0, None, 1), "57.1 ± 2.0") is None


def test_the_chance_of_a_difference_to_a_known_figure_is_that_of_welchs_test() -> None:
    ours, theirs = [60.0, 62.0, 67.0], [50.0, 51.0, 55.0]
    known = f"{sum(theirs) / 3:.12f} ± {scipy.stats.tstd(theirs):.12f}"
    found = chance_against(make_entry([{"last_accuracy": value / 100} for value in ours]), known)
    assert found == pytest.approx(scipy.stats.ttest_ind(ours, theirs, equal_var=False).pvalue, abs=1e-9)
    fewer = scipy.stats.ttest_ind(ours, theirs[:2], equal_var=False).pvalue
    known = f"{sum(theirs[:2]) / 2:.12f} ± {scipy.stats.tstd(theirs[:2]):.12f} (2)"
    found = chance_against(make_entry([{"last_accuracy": value / 100} for value in ours]), known)
    assert found == pytest.approx(fewer, abs=1e-9)
    assert chance_against(entry(60.0), "57.1") is chance_against(NOT_RUN, "57.1 ± 1.0") is None
    assert chance_against(entry(60.0, 0.0), "57.1 ± 1.0") is None


@pytest.mark.parametrize(
    ("chance", "digits", "text"),
    [
        (None, 2, "-"),
        (0.5, 2, "0.50"),
        (0.005, 2, "0.01"),
        (0.004, 2, "<0.01"),
        (0.0, 3, "<0.001"),
        (0.0149, 3, "0.015"),
    ],
)
def test_a_chance_is_never_printed_as_nothing(chance: float | None, digits: int, text: str) -> None:
    assert p_text(chance, digits) == text


def test_what_was_not_run_or_is_not_known_has_no_verdict() -> None:
    assert within(NOT_RUN, "57.1") == at_least(NOT_RUN, "57.1") == "not run"
    assert within(entry(50.0), "") == at_least(entry(50.0), "") == "-"
    assert difference(NOT_RUN, "57.1") is None


def test_a_single_seed_has_no_verdict() -> None:
    alone = make_entry([{"last_accuracy": 0.5}])
    assert within(alone, "57.1") == at_least(alone, "57.1") == "too few seeds"
    assert within(alone, "") == "-"


def test_pairs_are_compared_by_the_spread_of_their_own_differences() -> None:
    found = compare([(60.0, 50.0), (42.0, 30.0), (71.0, 60.0)])  # 10, 12, 11: far closer than the runs
    assert (found.pairs, found.difference) == (3, 11.0)
    assert found.error == pytest.approx(1 / math.sqrt(3))
    assert found.chance == pytest.approx(scipy.stats.ttest_rel([60, 42, 71], [50, 30, 60]).pvalue)
    assert found.direction == 2


@pytest.mark.parametrize(
    ("errors", "direction"),
    [(4.31, 2), (4.29, 1), (1.89, 1), (1.88, 0), (0.0, 0), (-1.88, 0), (-1.89, -1), (-4.31, -2)],
)
def test_how_sure_a_difference_of_three_pairs_is_goes_by_student_s_t(errors: float, direction: int) -> None:
    pairs = [(errors + gap * math.sqrt(3), 0.0) for gap in (-1.0, 0.0, 1.0)]  # a standard error of 1
    assert compare(pairs).direction == direction


def test_differences_that_are_all_the_same_cannot_be_judged_unless_there_is_none() -> None:
    """Figures in whole percents differ by the very same quite often, by chance."""
    same = compare([(51.0, 50.0), (41.0, 40.0)])
    assert (same.text, same.chance, same.interval, same.direction) == ("+1.00 ± 0.00", None, None, None)
    rounded = compare([(100 * 0.57, 100 * 0.56), (100 * 0.41, 100 * 0.40)])  # not quite 1 each, as floats
    assert (rounded.text, rounded.chance, rounded.interval) == ("+1.00 ± 0.00", None, None)
    assert compare([(50.0, 50.0), (40.0, 40.0)]).direction == 0


def test_one_pair_has_no_standard_error() -> None:
    found = compare([(60.0, 50.0)])
    assert (found.difference, found.error, found.direction, found.text) == (10.0, None, None, "+10.00 ± -")


def test_a_comparison_says_whether_anything_was_run() -> None:
    assert not compare([], was_run=False).was_run
    alone = compare([], was_run=True)
    assert (alone.was_run, alone.difference, alone.direction, alone.text) == (True, None, None, "-")

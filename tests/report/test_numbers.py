"""Tables of ledgers for programs: numbers alone."""

from __future__ import annotations

from typing import Any

import pytest

from puridiver.report.numbers import summary_numbers
from tests.grid.samples import row


def numbers(*rows: dict[str, Any]) -> list[dict[str, str]]:
    lines, headings = summary_numbers(list(rows), {})
    return [dict(zip(headings, line, strict=True)) for line in lines]


def test_mean_and_deviation_have_a_column_each() -> None:
    (found,) = numbers(row(1, 0.5, anytime_area=0.4), row(2, 0.6, anytime_area=0.4))
    assert float(found["last accuracy %"]) == pytest.approx(55)
    assert float(found["last accuracy standard deviation"]) == pytest.approx(7.071)
    assert (found["anytime %"], found["anytime standard deviation"]) == ("40.000", "0.000")
    assert (found["seeds"], found["seconds"], found["noise"]) == ("2", "4.0", "sym-40")
    assert "diverged" not in found


def test_what_is_not_known_is_empty() -> None:
    (found,) = numbers(row(1, 0.5, anytime_area=0.4), row(2, 0.6, lanes=4))
    assert (found["anytime %"], found["anytime standard deviation"], found["seconds"]) == ("", "", "")
    (alone,) = numbers(row(1, 0.5))
    assert (alone["last accuracy %"], alone["last accuracy standard deviation"]) == ("50.000", "")


def test_runs_that_diverged_have_a_column_where_there_are_any() -> None:
    found = numbers(row(1, 0.1, diverged=True), row(1, 0.5, recipe="paper"))
    assert [(line["last accuracy %"], line["diverged"]) for line in found] == [("10.000", "1"), ("50.000", "0")]

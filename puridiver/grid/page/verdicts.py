"""Verdicts of the results page, each from the figures of two cells or of a cell and a known figure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from puridiver.grid.table import Entry

WITHIN = 2.0  # points
ERRORS = 2.0  # standard errors that tell two means apart
NOT_RUN, UNKNOWN = "not run", "-"


def value_of(figure: str) -> float | None:
    """The mean of a figure as printed, such as "59.2 ± 0.3"; None where there is none."""
    return float(figure.partition(" ± ")[0]) if figure else None


def difference(ours: Entry, figure: str) -> float | None:
    """Our mean less a known one, in points; without the last bits, which would decide at a border."""
    known = value_of(figure)
    return None if ours.mean is None or known is None else round(ours.mean - known, 6)


def within(ours: Entry, figure: str) -> str:
    """Whether our mean lies within 2 points of a known one."""
    found = difference(ours, figure)
    return _unless_missing(ours, found, "yes" if found is not None and abs(found) <= WITHIN else "no")


def at_least(ours: Entry, figure: str) -> str:
    """Whether our mean is a known one or more."""
    found = difference(ours, figure)
    return _unless_missing(ours, found, "yes" if found is not None and found >= 0 else "no")


def _unless_missing(ours: Entry, found: float | None, verdict: str) -> str:
    if ours.mean is None:
        return NOT_RUN
    return UNKNOWN if found is None else verdict


@dataclass(frozen=True)
class Comparison:
    """A changed setting against the one it was changed from: difference of means and its standard error, in points."""

    was_run: bool
    difference: float | None
    error: float | None

    @property
    def direction(self) -> int | None:
        """1 better, -1 worse, 0 not told apart; None where one of the two was not run, or too seldom."""
        if self.difference is None or self.error is None:
            return None
        return 0 if abs(self.difference) <= ERRORS * self.error else int(math.copysign(1, self.difference))

    @property
    def text(self) -> str:
        if self.difference is None:
            return UNKNOWN
        error = UNKNOWN if self.error is None else f"{self.error:.2f}"
        return f"{self.difference:+.2f} ± {error}"


def compare(changed: Entry, base: Entry) -> Comparison:
    """By the standard error of a difference of two means; there is none where a cell has one seed."""
    if changed.mean is None or base.mean is None:
        return Comparison(changed.mean is not None, None, None)
    found = round(changed.mean - base.mean, 6)
    if changed.deviation is None or base.deviation is None:
        return Comparison(True, found, None)
    return Comparison(True, found, math.sqrt(changed.deviation**2 / changed.seeds + base.deviation**2 / base.seeds))


def compare_pairs(pairs: Sequence[tuple[float, float]]) -> Comparison:
    """Runs of a changed setting, each beside one of the same stream and seed; the error of one pair is not known."""
    if not pairs:
        return Comparison(False, None, None)
    found = [changed - base for changed, base in pairs]
    error = statistics.stdev(found) / math.sqrt(len(found)) if len(found) > 1 else None
    return Comparison(True, round(statistics.mean(found), 6), error)

"""Verdicts of the results page, each from the figures of two cells or of a cell and a known figure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

from puridiver.grid.table import Entry

WITHIN = 2.0  # points
FEWEST = 2  # seeds that a verdict needs
RUNS = 3  # behind each of the paper's figures
SURE, HINT = 0.05, 0.2  # what chance alone may do as often
NOT_RUN, UNKNOWN, TOO_FEW = "not run", "-", "too few seeds"


def value_of(figure: str) -> float | None:
    """The mean of a figure as printed, such as "59.2 ± 0.3" or "52.4 ± 2.6 (2)"; None where there is none."""
    return None if figure in ("", UNKNOWN) else float(figure.partition(" ± ")[0])


def deviation_of(figure: str) -> float | None:
    """The standard deviation of a figure as printed; None where it has none."""
    _, found, rest = figure.partition(" ± ")
    return float(rest.partition(" (")[0]) if found else None


def runs_of(figure: str) -> int:
    """How many runs a figure is of; the paper's do not say it, as all are of three."""
    _, found, rest = figure.partition(" (")
    return int(rest.rstrip(")")) if found else RUNS


def error(ours: Entry, figure: str) -> float | None:
    """The standard error of our mean less a known one; without the known one's where it is not known.

    None where ours has none.
    """
    if ours.deviation is None:
        return None
    return math.hypot(ours.deviation / math.sqrt(ours.seeds), (deviation_of(figure) or 0) / math.sqrt(runs_of(figure)))


def chance_against(ours: Entry, figure: str) -> float | None:
    """How often chance alone would put our mean as far from a known one (Welch's t-test); None without deviations."""
    mean, deviation = value_of(figure), deviation_of(figure)
    if mean is None or not deviation or not ours.deviation or ours.mean is None:
        return None
    theirs = (mean, deviation, runs_of(figure))
    found = stats.ttest_ind_from_stats(ours.mean, ours.deviation, ours.seeds, *theirs, equal_var=False)
    return float(found.pvalue)


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
    if found is None:
        return UNKNOWN
    return verdict if ours.seeds >= FEWEST else TOO_FEW


def p_text(chance: float | None, digits: int = 2) -> str:
    """How often chance alone would give as much, as printed: never 0."""
    if chance is None:
        return UNKNOWN
    least = 10.0**-digits
    return f"{chance:.{digits}f}" if chance >= least / 2 else f"<{least:.{digits}f}"


def holm(chances: Sequence[float]) -> list[float]:
    """The p values of several comparisons, so that the least of them is no more often below a level by chance alone."""
    corrected, largest = [0.0] * len(chances), 0.0
    for rank, number in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        largest = max(largest, min(1.0, (len(chances) - rank) * chances[number]))
        corrected[number] = largest
    return corrected


@dataclass(frozen=True)
class Comparison:
    """A setting against another by pairs of runs of the same stream and seed: mean difference and its error, in points.

    `was_run` says whether the setting was run at all, `chance` how often chance alone would give as large a difference
    (a paired t-test of two sides), `corrected` the same among all comparisons that were made beside it. `diverged` and
    `base_diverged` say in how many of the pairs the setting's run did, and the other's; `freedom` how many degrees the
    error has, where they are not those of the pairs.
    """

    was_run: bool
    pairs: int = 0
    difference: float | None = None
    error: float | None = None
    chance: float | None = None
    corrected: float | None = None
    diverged: int = 0
    base_diverged: int = 0
    freedom: int | None = None

    @property
    def direction(self) -> int | None:
        """2 better, 1 perhaps, 0 not told apart, -1 perhaps worse, -2 worse; None where there are too few pairs."""
        if self.difference is None or self.chance is None:
            return None
        if self.corrected is None:
            size = (self.chance <= SURE) + (self.chance <= HINT)
        else:
            size = (self.corrected <= SURE) + (self.chance <= SURE)
        return int(math.copysign(size, self.difference)) if size else 0

    @property
    def interval(self) -> tuple[float, float] | None:
        """That of 95 %, by Student's t; None without a spread to work it out from."""
        if self.difference is None or not self.error:
            return None
        reach = self.error * float(stats.t.ppf(0.975, self.freedom or self.pairs - 1))
        return self.difference - reach, self.difference + reach

    @property
    def text(self) -> str:
        if self.difference is None:
            return UNKNOWN
        error = UNKNOWN if self.error is None else f"{self.error:.2f}"
        return f"{self.difference:+.2f} ± {error}"


def compare(pairs: Sequence[tuple[float, float]], was_run: bool = True) -> Comparison:
    """Runs of a setting, each beside one of another on the same stream and seed; of one pair the error is not known."""
    if not pairs:
        return Comparison(was_run)
    found = [round(one - other, 9) for one, other in pairs]  # the last bits would make a spread where there is none
    mean = round(statistics.mean(found), 6)
    if len(found) < FEWEST:
        return Comparison(True, len(found), mean)
    error = statistics.stdev(found) / math.sqrt(len(found))
    if not error:  # the very same difference each time: without any spread there is nothing to judge it by
        return Comparison(True, len(found), mean, error, 1.0 if mean == 0 else None)
    return Comparison(True, len(found), mean, error, 2 * float(stats.t.sf(abs(mean) / error, len(found) - 1)))


def compare_together(columns: Sequence[Sequence[tuple[float, float]]]) -> Comparison:
    """The mean over several columns of the mean difference in each, with one spread of seeds for all of them.

    A column of two or three pairs knows its own spread badly: two that agree by chance would count as certain.
    """
    found = [[one - other for one, other in pairs] for pairs in columns]
    means = [statistics.mean(differences) for differences in found]
    mean, pairs = round(statistics.mean(means), 6), sum(map(len, found))
    freedom = pairs - len(found)
    if not freedom:
        return Comparison(True, pairs, mean)
    squares = sum((value - m) ** 2 for differences, m in zip(found, means, strict=True) for value in differences)
    error = math.sqrt(squares / freedom * sum(1 / len(differences) for differences in found)) / len(found)
    if error < 1e-9:
        return Comparison(True, pairs, mean, 0.0, 1.0 if mean == 0 else None)
    return Comparison(True, pairs, mean, error, 2 * float(stats.t.sf(abs(mean) / error, freedom)), freedom=freedom)

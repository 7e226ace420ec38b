"""Many settings against one on the same streams: how much is chance is learnt from all of them together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

from puridiver.grid.page.sections import by_seed
from puridiver.grid.page.tables import CellRuns
from puridiver.grid.page.verdicts import FEWEST, Comparison

ENOUGH = 4  # settings that were run on the same seeds, the one to compare with among them


@dataclasses.dataclass(frozen=True)
class Spread:
    """What chance does to one run: standard deviation in points, and from how much it was learnt."""

    deviation: float
    freedom: int


def against(base: CellRuns, others: Sequence[CellRuns]) -> list[Comparison]:
    """Each of the others less the base over the seeds they share.

    Three pairs say little about their own spread. So where enough settings were run on the base's seeds, error and p
    are from the spread of all, and p is also corrected for how many are compared (Holm); else each pair is on its own.
    """
    found, spread = [by_seed(other, base) for other in others], spread_of([base, *others], _seeds(base))
    if spread is None:
        return found
    found = [_by_spread(comparison, spread) for comparison in found]
    compared = [number for number, comparison in enumerate(found) if comparison.chance is not None]
    corrected = holm([found[number].chance or 0.0 for number in compared])
    for number, chance in zip(compared, corrected, strict=True):
        found[number] = dataclasses.replace(found[number], corrected=chance)
    return found


def spread_of(cells: Sequence[CellRuns], seeds: Sequence[int]) -> Spread | None:
    """What is left of the accuracies without the means of setting and seed (two-way analysis of variance).

    Of cells that have all the seeds; a setting with a run that diverged is left out, as its figures do not vary.
    """
    whole = [cell for cell in cells if set(seeds) <= set(_seeds(cell)) and not _diverged(cell)]
    if len(seeds) < FEWEST or len(whole) < ENOUGH:
        return None
    accuracies = [{row["seed"]: 100 * row["last_accuracy"] for row in cell.rows} for cell in whole]
    table = np.array([[found[seed] for seed in seeds] for found in accuracies])
    left = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0, keepdims=True) + table.mean()
    freedom = (len(whole) - 1) * (len(seeds) - 1)
    deviation = math.sqrt(float(np.square(left).sum()) / freedom)
    return Spread(deviation, freedom) if round(deviation, 9) else None


def holm(chances: Sequence[float]) -> list[float]:
    """The p values of several comparisons, so that the least of them is no more often below a level by chance alone."""
    corrected, largest = [0.0] * len(chances), 0.0
    for rank, number in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        largest = max(largest, min(1.0, (len(chances) - rank) * chances[number]))
        corrected[number] = largest
    return corrected


def _by_spread(found: Comparison, spread: Spread) -> Comparison:
    if found.difference is None or found.pairs < FEWEST:
        return found
    error = spread.deviation * math.sqrt(2 / found.pairs)
    chance = 2 * float(stats.t.sf(abs(found.difference) / error, spread.freedom))
    return dataclasses.replace(found, error=error, chance=chance)


def _seeds(cell: CellRuns) -> list[int]:
    return sorted(row["seed"] for row in cell.rows)


def _diverged(cell: CellRuns) -> bool:
    return any(row.get("diverged", False) for row in cell.rows)

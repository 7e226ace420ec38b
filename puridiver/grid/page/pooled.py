"""Many settings against one on the same streams: how much is chance is learnt from all of them together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

from puridiver.grid.page.sections import by_seed
from puridiver.grid.page.tables import CellRuns
from puridiver.grid.page.verdicts import FEWEST, Comparison, holm

ENOUGH = 4  # settings of two runs or more, the one to compare with among them


@dataclasses.dataclass(frozen=True)
class Spread:
    """What chance does to one run: standard deviation in points, and from how much it was learnt."""

    deviation: float
    freedom: int


def against(base: CellRuns, others: Sequence[CellRuns]) -> list[Comparison]:
    """Each of the others less the base over the seeds they share.

    Two or three pairs say little about their own spread: two that happen to agree would look sure. So where enough
    settings were run more than once, error and p are from the spread of all, and p is also corrected for how many are
    compared (Holm); else each pair is on its own.
    """
    found, spread = [_compared(other, base) for other in others], spread_of([base, *others])
    if spread is None:
        return found
    found = [one if _torn(one) else _by_spread(one, spread) for one in found]
    compared = [number for number, comparison in enumerate(found) if comparison.chance is not None]
    corrected = holm([found[number].chance or 0.0 for number in compared])
    for number, chance in zip(compared, corrected, strict=True):
        found[number] = dataclasses.replace(found[number], corrected=chance)
    return found


def spread_of(cells: Sequence[CellRuns]) -> Spread | None:
    """What is left of the accuracies without what setting and seed explain (two-way analysis of variance).

    By least squares, as not every setting may have every seed. A setting with a run that diverged is left out, as its
    figures vary in another way, and one of a single run says nothing of its spread.
    """
    repeated = [cell for cell in cells if len(cell.rows) >= FEWEST and not _diverged(cell)]
    if len(repeated) < ENOUGH:
        return None
    runs = [
        (number, row["seed"], 100 * row["last_accuracy"]) for number, cell in enumerate(repeated) for row in cell.rows
    ]
    seeds = sorted({seed for _, seed, _ in runs})
    design = np.zeros((len(runs), len(repeated) + len(seeds)))
    for place, (number, seed, _) in enumerate(runs):
        design[place, [number, len(repeated) + seeds.index(seed)]] = 1
    accuracies = np.array([accuracy for *_, accuracy in runs])
    explained, _, rank, _ = np.linalg.lstsq(design, accuracies, rcond=None)
    freedom = len(runs) - int(rank)
    if freedom < 1:
        return None
    deviation = math.sqrt(float(np.square(accuracies - design @ explained).sum()) / freedom)
    return Spread(deviation, freedom) if round(deviation, 9) else None


def _by_spread(found: Comparison, spread: Spread) -> Comparison:
    if found.difference is None or found.pairs < FEWEST:
        return found
    error = spread.deviation * math.sqrt(2 / found.pairs)
    chance = 2 * float(stats.t.sf(abs(found.difference) / error, spread.freedom))
    return dataclasses.replace(found, error=error, chance=chance, freedom=spread.freedom)


def _compared(cell: CellRuns, base: CellRuns) -> Comparison:
    """The two on the seeds they share, and how many runs of each diverged there."""
    lost, base_lost = (
        sum(row["seed"] in {row["seed"] for row in other.rows} for row in one.rows if row.get("diverged", False))
        for one, other in ((cell, base), (base, cell))
    )
    return dataclasses.replace(by_seed(cell, base), diverged=lost, base_diverged=base_lost)


def _torn(found: Comparison) -> bool:
    """Whether of one of the two some runs diverged and others did not: those vary far more than all others do."""
    return any(0 < lost < found.pairs for lost in (found.diverged, found.base_diverged))


def _diverged(cell: CellRuns) -> bool:
    return any(row.get("diverged", False) for row in cell.rows)

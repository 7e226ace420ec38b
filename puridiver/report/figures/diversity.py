"""Diversity and purity of the final memory against fixed values of alpha."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from puridiver.report.figures.alpha import by_alpha, over_stream
from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.reading import Run


class Diversity(Figure):
    name, title = "diversity", "Diversity and purity against alpha"
    needs = "a run with a fixed alpha (--set alpha=0.3) whose purity or diversity is known"
    order, of_several, internal = 85, True, True

    def usable(self, run: Run) -> bool:
        known = run.knows_truth or run.summary["memory_diversity"] is not None
        return known and run.static_alpha is not None and bool(over_stream(run))

    def draw(self, runs: Sequence[Run]) -> Drawing:
        purities, numbers = by_alpha(runs, "Purity of the final memory, %", "memory_purity")
        diversities, more = by_alpha(runs, "Diversity of the final memory", "memory_diversity", 1)
        caption = "A higher alpha gains variety (diversity) and loses right labels (purity)."
        return Drawing(caption, [*purities, *diversities], pd.concat([numbers, more]))

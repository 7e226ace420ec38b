"""Purity and diversity of the final memory against fixed alphas."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from puridiver.report.figures.alpha import has_alpha, panels_by_alpha
from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.reading import Run


def _purity(run: Run) -> float | None:
    return 100 * run.summary["memory_purity"] if run.knows_truth else None


def _diversity(run: Run) -> float | None:
    return run.summary.get("memory_diversity")


class Diversity(Figure):
    name, title = "diversity", "Diversity and purity against alpha"
    needs = "a run with a fixed alpha (--set alpha=0.3) whose purity or diversity is known"
    order, of_several = 60, True

    def usable(self, run: Run) -> bool:
        known = run.knows_truth or _diversity(run) is not None
        return known and has_alpha(run) and run.static_alpha is not None

    def draw(self, runs: Sequence[Run]) -> Drawing:
        purities, numbers = panels_by_alpha(runs, "Purity of the final memory, %", _purity)
        diversities, more = panels_by_alpha(runs, "Diversity of the final memory", _diversity)
        caption = "A higher alpha gains variety (diversity) and loses right labels (purity)."
        return Drawing(self.title, caption, [*purities, *diversities], pd.concat([numbers, more]))

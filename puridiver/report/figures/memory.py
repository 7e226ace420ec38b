"""Purity and diversity of the memory over the stream."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from puridiver.report.figures._lines import TASK_BANDS, curves, mark_stream
from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.reading import Run


class Memory(Figure):
    name, title, needs = "memory", "The memory over the stream", "data with true labels, to know the memory's purity"
    order, of_run, of_several = 40, True, True

    def usable(self, run: Run) -> bool:
        return run.knows_truth

    def draw(self, runs: Sequence[Run]) -> Drawing:
        left, purities = curves(runs, "memory_purity", "Purity of the memory, %", mark_stream)
        right, diversities = curves(runs, "memory_diversity", "Diversity of the memory")
        caption = (
            "Purity is the share of right labels in the memory. Above the dotted line, the memory is cleaner than the "
            f"stream.{' Diversity is the mean distance between images of one class.' * bool(right)} {TASK_BANDS}"
        )
        return Drawing(caption, left + right, pd.concat([purities, diversities]))

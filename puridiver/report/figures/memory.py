"""Purity and diversity of the memory over the stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.figures.lines import SEEN, TASK_BANDS, curve, line_panels, mark_stream_purity, shade_tasks
from puridiver.report.reading import Facet, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PURITY = "Purity of the memory, %"
CAPTION = (
    "Purity is the share of right labels in the memory. Above the dotted line, the memory is cleaner than the stream."
)


def decorate_purity(axes: Axes, facet: Facet) -> None:
    shade_tasks(axes, facet)
    mark_stream_purity(axes, facet)


class Memory(Figure):
    name, title, needs = "memory", "The memory over the stream", "data with true labels, to know the memory's purity"
    order, of_run, of_several = 50, True, True

    def usable(self, run: Run) -> bool:
        return run.knows_truth

    def draw(self, runs: Sequence[Run]) -> Drawing:
        purities, numbers = line_panels(
            runs, PURITY, lambda run: curve(run, "memory_purity"), decorate_purity,
            xlabel=SEEN, xlim=(0, None), ylim=(0, 101),
        )  # fmt: skip
        diversities, more = line_panels(
            runs, "Diversity of the memory", lambda run: curve(run, "memory_diversity", 1), shade_tasks,
            xlabel=SEEN, xlim=(0, None), ylim=(0, None),
        )  # fmt: skip
        diversity = " Diversity is the mean distance between images of one class." * bool(diversities)
        return Drawing(
            self.title, f"{CAPTION}{diversity} {TASK_BANDS}", [*purities, *diversities], pd.concat([numbers, more])
        )

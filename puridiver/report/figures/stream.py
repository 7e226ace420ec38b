"""Accuracy and purity over the stream, side by side."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pandas as pd

from puridiver.report.figures.accuracy import Accuracy
from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.figures.lines import SEEN, curve, line_panels
from puridiver.report.figures.memory import CAPTION, PURITY, decorate_purity
from puridiver.report.reading import Run


class Stream(Figure):
    name, title = "stream", "Accuracy and purity over the stream"
    order = 25

    def draw(self, runs: Sequence[Run]) -> Drawing:
        left = Accuracy().draw(runs)
        right, numbers = line_panels(
            runs, PURITY, lambda run: curve(run, "memory_purity"), decorate_purity,
            xlabel=SEEN, xlim=(0, None), ylim=(0, 101),
        )  # fmt: skip
        if not right:
            return left
        pairs = itertools.zip_longest(left.panels, right)
        panels = [panel for pair in pairs for panel in pair if panel is not None]
        return Drawing(self.title, f"{left.caption} {CAPTION}", panels, pd.concat([left.numbers, numbers]))

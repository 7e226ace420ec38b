"""The sets into which PuriDivER divides the memory after each task: their sizes, and how right they are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from puridiver.report.figures.base import RunFigure
from puridiver.report.reading import Run
from puridiver.report.style import Axes, Panel, colour

SETS = ("clean (C)", "re-label (R)", "unlabelled (U)")


def set_precision(event: dict[str, Any], code: int) -> float | None:
    """How right a set is, in percent: by the label in C, by the prediction in R, against the label in U."""
    name, wanted = (("right", 1), ("guess_right", 1), ("right", 0))[code]
    known = [r for r, c in zip(event[name], event["sets"], strict=True) if c == code and r is not None]
    return 100 * known.count(wanted) / len(known) if known else None


def _paint(numbers: pd.DataFrame, column: str, axes: Axes) -> None:
    """Stacked bars of the samples in each set, or lines of how right the sets are."""
    table = numbers.pivot(index="task", columns="set", values=column)
    bottom = np.zeros(len(table))
    for code, title in enumerate(SETS):
        if column == "samples":
            axes.bar(table.index, table[title], bottom=bottom, color=colour(code), label=title, width=0.7,
                     hatch=("", "///", "...")[code])  # fmt: skip
            bottom += table[title].to_numpy()
        elif len(known := table[title].dropna()):
            axes.plot(known.index, known, color=colour(code), marker="os^"[code], linestyle=("-", "--", ":")[code],
                      label=title, clip_on=False)  # fmt: skip
    axes.set(xlabel="after task", xticks=table.index, ylim=(0, None if column == "samples" else 101))


class Sets(RunFigure):
    name, title, order, internal = "sets", "Clean, re-labelled, unlabelled", 70, True

    def caption(self, runs: Sequence[Run]) -> str:
        uses = all(run.summary["trainer"] == "puridiver" for run in runs)
        right = "Right means: a right label in C, a right prediction in R, a wrong label in U."
        return (
            f"{'' if uses else 'Not every trainer here uses these sets. '}After each task, PuriDivER divides the "
            "memory into C (labels are trusted), R (the prediction replaces the label) and U (labels are not used). "
            f"{right if any(run.knows_truth for run in runs) else 'True labels are not known.'}"
        )

    def panels(self, run: Run) -> list[Panel]:
        table = self.table(run)
        sizes = Panel("Samples in each set", partial(_paint, table, "samples"))
        return [sizes, *[Panel("How right each set is, %", partial(_paint, table, "right %"))] * run.knows_truth]

    def table(self, run: Run) -> pd.DataFrame:
        rows = [
            (event["task"] + 1, title, event["sets"].count(code), set_precision(event, code))
            for event in run.of_kind("split") for code, title in enumerate(SETS)
        ]  # fmt: skip
        return pd.DataFrame(rows, columns=["task", "set", "samples", "right %"])

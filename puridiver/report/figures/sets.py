"""The clean, re-label and unlabelled sets of the memory after each task."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.reading import Run, representatives
from puridiver.report.style import Panel, colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SETS = ("clean (C)", "re-label (R)", "unlabelled (U)")


def set_precision(event: dict[str, Any], code: int) -> float | None:
    """How right a set is, in percent: by the label in C, by the prediction in R, against the label in U."""
    name, wanted = (("right", 1), ("guess_right", 1), ("right", 0))[code]
    known = [r for r, c in zip(event[name], event["sets"], strict=True) if c == code and r is not None]
    return 100 * known.count(wanted) / len(known) if known else None


def _paint_sizes(events: Sequence[dict[str, Any]], axes: Axes) -> None:
    x, bottom = [event["task"] + 1 for event in events], np.zeros(len(events))
    for code, title in enumerate(SETS):
        sizes = [event["sets"].count(code) for event in events]
        axes.bar(x, sizes, bottom=bottom, color=colour(code), label=title, width=0.7, hatch=("", "///", "...")[code])
        bottom += sizes
    axes.set(xlabel="after task", ylabel="samples", xticks=x)


def _paint_precision(events: Sequence[dict[str, Any]], axes: Axes) -> None:
    for code, title in enumerate(SETS):
        points = [(event["task"] + 1, value) for event in events if (value := set_precision(event, code)) is not None]
        if points:
            x, y = zip(*points, strict=True)
            axes.plot(x, y, color=colour(code), marker="os^"[code], linestyle=("-", "--", ":")[code], label=title,
                      clip_on=False)  # fmt: skip
    axes.set(xlabel="after task", ylim=(0, 101), xticks=[event["task"] + 1 for event in events])


class Sets(Figure):
    name, title, needs = "sets", "Clean, re-labelled, unlabelled", "a run that kept how it divided its memory"
    order, of_run, each_run = 70, True, True

    def usable(self, run: Run) -> bool:
        return bool(run.of_kind("split"))

    def draw(self, runs: Sequence[Run]) -> Drawing:
        chosen = {label: run for label, run in representatives(runs).items() if self.usable(run)}
        panels, rows = [], []
        for label, run in chosen.items():
            whose, events = f", {label}" * (len(chosen) > 1), run.of_kind("split")
            panels.append(Panel(f"Samples in each set{whose}", partial(_paint_sizes, events)))
            if run.knows_truth:
                panels.append(Panel(f"How right each set is, %{whose}", partial(_paint_precision, events)))
            rows += [
                {"run": label, "task": event["task"] + 1, "set": title, "samples": event["sets"].count(code),
                 "right %": set_precision(event, code)}
                for event in events for code, title in enumerate(SETS)
            ]  # fmt: skip
        return Drawing(self.title, _caption(list(chosen.values())), panels, pd.DataFrame(rows))


def _caption(runs: Sequence[Run]) -> str:
    uses = all(run.summary["trainer"] == "puridiver" for run in runs)
    who = "After each task, PuriDivER divides" if uses else "Not every trainer here uses these sets. PuriDivER divides"
    right = "True labels are not known, so neither is how right each set is."
    if any(run.knows_truth for run in runs):
        where = "" if all(run.knows_all_truth for run in runs) else ", among samples whose true label is known"
        right = f"Right means{where}: a right label in C, a right prediction in R, a wrong label in U."
    return (
        f"{who} the memory into C (labels are trusted), R (the prediction replaces the label) and U (labels are not "
        f"used). {right}"
    )

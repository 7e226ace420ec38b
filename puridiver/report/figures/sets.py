"""How PuriDivER divides the memory after each task: its sets, and the mixtures that divide it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from puridiver.report.figures import RunFigure
from puridiver.report.reading import Run
from puridiver.report.style import INK, Axes, Panel, colour

SETS = ("clean (C)", "re-label (R)", "unlabelled (U)")
OF = {"loss": "Loss", "uncertainty": "Uncertainty of the doubted"}
BINS = 30


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
        sizes = Panel("Samples in each set", partial(_paint_sets, table, "samples"))
        return [sizes, *[Panel("How right each set is, %", partial(_paint_sets, table, "right %"))] * run.knows_truth]

    def table(self, run: Run) -> pd.DataFrame:
        rows = [
            (event["task"] + 1, title, event["sets"].count(code), set_precision(event, code))
            for event in run.of_kind("split") for code, title in enumerate(SETS)
        ]  # fmt: skip
        return pd.DataFrame(rows, columns=["task", "set", "samples", "right %"])


def set_precision(event: dict[str, Any], code: int) -> float | None:
    """How right a set is, in percent: by the label in C, by the prediction in R, against the label in U."""
    name, wanted = (("right", 1), ("guess_right", 1), ("right", 0))[code]
    known = [r for r, c in zip(event[name], event["sets"], strict=True) if c == code and r is not None]
    return 100 * known.count(wanted) / len(known) if known else None


def _paint_sets(numbers: pd.DataFrame, column: str, axes: Axes) -> None:
    """Stacked bars of the samples in each set, or lines of how right the sets are."""
    table = numbers.pivot(index="task", columns="set", values=column)
    bottom = np.zeros(len(table))
    for code, title in enumerate(SETS):
        if column == "samples":
            axes.bar(table.index, table[title], bottom=bottom, color=colour(code), label=title, width=0.7,
                     hatch=("", "///", "...")[code])  # fmt: skip
            bottom += table[title].to_numpy()
        else:
            axes.plot(table[title].dropna(), color=colour(code), marker="os^"[code], linestyle=("-", "--", ":")[code],
                      label=title, clip_on=False)  # fmt: skip
    axes.set(xlabel="after task", xticks=table.index, ylim=(0, None if column == "samples" else 101))


class Mixtures(RunFigure):
    name, title, order, internal = "mixtures", "Losses and uncertainties with their mixtures", 75, True

    def caption(self, runs: Sequence[Run]) -> str:
        bars = "show the truth" if any(run.knows_all_truth for run in runs) else "are all samples: truth is not known"
        return (
            "The loss tells right labels from wrong ones, the uncertainty right predictions from wrong ones. The "
            f"curves are the fitted Gaussians, the bars {bars}. Counts are on a logarithmic scale."
        )

    def panels(self, run: Run) -> list[Panel]:
        return [
            Panel(f"{words}, task {event['task'] + 1}", partial(_paint_mixture, what, event))
            for event in run.of_kind("split") for what, words in OF.items()
        ]  # fmt: skip

    def table(self, run: Run) -> pd.DataFrame:
        events = run.of_kind("split")
        rows = [{"task": event["task"] + 1, "of": what, **event[f"{what}_mixture"]} for event in events for what in OF]
        return pd.DataFrame(rows).explode(["weights", "means", "variances"])


def _paint_mixture(what: str, event: dict[str, Any], axes: Axes) -> None:
    """Bars of right and wrong ones, and the fitted components; on a log scale a few are seen beside many."""
    lists, of, x_label = ("losses", "right"), "label", "loss"
    if what == "uncertainty":
        lists, of, x_label = ("uncertainties", "guess_right"), "prediction", "uncertainty: 1 - highest probability"
    frame = pd.DataFrame({"value": event[lists[0]], "right": event[lists[1]], "set": event["sets"]})
    frame = frame[frame.value.notna() & ((what == "loss") | (frame.set != 0))]
    axes.set(xlabel=x_label, ylabel="samples")
    if frame.empty:
        axes.set(xlim=(0, 1), ylim=(0, 1), yticks=[])
        axes.text(0.5, 0.5, "every sample counts as clean", ha="center", va="center", transform=axes.transAxes)
        return
    edges = np.linspace(0, 1.02 * (frame.value.max() or 1.0), min(BINS, 5 + len(frame) // 4) + 1)
    parts = {f"{of} right": frame.right == 1, f"{of} wrong": frame.right == 0, "truth not known": frame.right.isna()}
    for number, (name, chosen) in enumerate(parts.items()):
        if chosen.any():
            look: dict[str, Any] = {"color": colour(number), "alpha": 0.6, "hatch": ("", "///", "")[number]}
            axes.hist(frame.value[chosen], edges.tolist(), label=f"{name} ({chosen.sum()})", **look)
    x = np.linspace(0, edges[-1], 200)
    for number, y in enumerate(component_counts(event[f"{what}_mixture"], x, len(frame), edges[1])):
        label = f"{('low', 'high')[number]} component"
        axes.plot(x, y, color=INK, linewidth=1.5, linestyle=("-", "--")[number], label=label)
    axes.set(xlim=(0, edges[-1]), yscale="log", ylim=(0.7, None))
    axes.yaxis.set_major_formatter("{x:,.0f}")  # powers would be formulas, which names of classes must not be


def component_counts(mixture: dict[str, Any], x: np.ndarray, n: int, width: float) -> list[np.ndarray]:
    """Both Gaussians as expected counts in bins of this width; zero for an empty component."""
    span, found = mixture["span"] or 1.0, []
    for weight, mean, variance in zip(mixture["weights"], mixture["means"], mixture["variances"], strict=True):
        density = norm.pdf(x, mixture["offset"] + span * mean, span * math.sqrt(variance or 1.0))
        found.append(n * (weight if variance else 0.0) * density * width)
    return found

"""How the memory is divided after each task: the sets, and the mixtures that divide it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.reading import Run, representatives
from puridiver.report.style import INK, Axes, Panel, colour

Event = dict[str, Any]
SETS = ("clean (C)", "re-label (R)", "unlabelled (U)")
COMPONENTS = ("low component", "high component")
BINS = 30


def set_precision(event: Event, code: int) -> float | None:
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
        elif len(known := table[title].dropna()):
            axes.plot(known.index, known, color=colour(code), marker="os^"[code], linestyle=("-", "--", ":")[code],
                      label=title, clip_on=False)  # fmt: skip
    axes.set(xlabel="after task", xticks=table.index, ylim=(0, None if column == "samples" else 101))


class _OfSplits(Figure):
    """What both figures of a divided memory share."""

    needs, of_run, each_run = "a run that kept how it divided its memory", True, True

    def usable(self, run: Run) -> bool:
        return bool(run.of_kind("split"))

    def chosen(self, runs: Sequence[Run]) -> dict[str, Run]:
        return {label: run for label, run in representatives(runs).items() if self.usable(run)}


class Sets(_OfSplits):
    name, title, order = "sets", "Clean, re-labelled, unlabelled", 70

    def draw(self, runs: Sequence[Run]) -> Drawing:
        chosen, panels, tables = self.chosen(runs), [], []
        for label, run in chosen.items():
            rows = [
                (label, event["task"] + 1, title, event["sets"].count(code), set_precision(event, code))
                for event in run.of_kind("split") for code, title in enumerate(SETS)
            ]  # fmt: skip
            tables.append(pd.DataFrame(rows, columns=["run", "task", "set", "samples", "right %"]))
            whose = f", {label}" * (len(chosen) > 1)
            panels.append(Panel(f"Samples in each set{whose}", partial(_paint_sets, tables[-1], "samples")))
            if run.knows_truth:
                panels.append(Panel(f"How right each set is, %{whose}", partial(_paint_sets, tables[-1], "right %")))
        uses = all(run.summary["trainer"] == "puridiver" for run in chosen.values())
        right = "Right means: a right label in C, a right prediction in R, a wrong label in U."
        caption = (
            f"{'' if uses else 'Not every trainer here uses these sets. '}After each task, PuriDivER divides the "
            "memory into C (labels are trusted), R (the prediction replaces the label) and U (labels are not used). "
            f"{right if any(run.knows_truth for run in chosen.values()) else 'True labels are not known.'}"
        )
        return Drawing(self.title, caption, panels, pd.concat(tables))


def component_counts(mixture: Event, x: np.ndarray, n: int, width: float) -> list[np.ndarray]:
    """Both Gaussians as expected counts in bins of this width; zero for an empty component."""
    span = mixture["span"] or 1.0
    scaled, found = (x - mixture["offset"]) / span, []
    for weight, mean, variance in zip(mixture["weights"], mixture["means"], mixture["variances"], strict=True):
        spread = variance or 1.0
        density = np.exp(-((scaled - mean) ** 2) / (2 * spread)) / math.sqrt(2 * math.pi * spread)
        found.append(n * (weight if variance else 0.0) * density * width / span)
    return found


def _paint_mixture(what: str, event: Event, axes: Axes) -> None:
    """Right ones point up and wrong ones down, each half on its own scale, so that a few are seen beside many."""
    of_loss = what == "loss"
    names = ("label right", "label wrong") if of_loss else ("prediction right", "prediction wrong")
    axes.set(xlabel="loss" if of_loss else "uncertainty: 1 - highest class probability", ylabel="samples")
    lists = (event["losses"], event["right"]) if of_loss else (event["uncertainties"], event["guess_right"])
    frame = pd.DataFrame(zip(*lists, event["sets"], strict=True), columns=["value", "right", "set"])
    frame = frame[frame.value.notna() & (of_loss | (frame.set != 0))]
    if frame.empty:
        axes.set(xlim=(0, 1), ylim=(0, 1), yticks=[])
        axes.text(0.5, 0.5, "every sample counts as clean", ha="center", va="center", transform=axes.transAxes)
        return
    edges = np.linspace(0, 1.02 * (frame.value.max() or 1.0), min(BINS, 5 + len(frame) // 4) + 1)
    x = np.linspace(0, edges[-1], 200)
    curves = component_counts(event[f"{what}_mixture"], x, len(frame), edges[1])
    blind, ticks = bool(frame.right.isna().any()), dict[float, str]()
    for side, name in enumerate(["truth not known"] if blind else names):
        values = frame.value if blind else frame.value[frame.right == 1 - side]
        counts, fitted = np.histogram(values, edges)[0], curves if blind else curves[side : side + 1]
        # Show the whole curve, unless it is so narrow and high that the bars would vanish.
        tallest, bars = math.ceil(max(y.max() for y in fitted)), int(counts.max())
        highest = max(bars, min(tallest, 2 * bars or tallest)) or 1
        unit = (-1 if side else 1) / highest
        axes.bar(edges[:-1], counts * unit, np.diff(edges), align="edge", color=colour(side), alpha=0.75,
                 hatch=("", "///")[side], label=f"{name} ({len(values)})")  # fmt: skip
        for component, y in enumerate(fitted, start=side):
            axes.plot(x, y * unit, color=INK, linewidth=1.5, linestyle=("-", "--")[component],
                      label=COMPONENTS[component])  # fmt: skip
        step = max(1, round(highest / 2))
        ticks |= {count * unit: str(count) for count in range(0, highest + 1, step)}
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.set(xlim=(0, edges[-1]), ylim=(0 if blind else -1.12, 1.12))


class Mixtures(_OfSplits):
    name, title, order = "mixtures", "Losses and uncertainties with their mixtures", 80

    def draw(self, runs: Sequence[Run]) -> Drawing:
        chosen, panels, rows = self.chosen(runs), [], []
        alone = len(chosen) == 1  # then every task is drawn, else the last one
        for label, run in chosen.items():
            for event in run.of_kind("split")[0 if alone else -1 :]:
                for what, words in (("loss", "Loss"), ("uncertainty", "Uncertainty of the doubted")):
                    title = f"{words}, {f'{label}, ' * (not alone)}task {event['task'] + 1}"
                    panels.append(Panel(title, partial(_paint_mixture, what, event)))
                    rows.append({"run": label, "task": event["task"] + 1, "of": what, **event[f"{what}_mixture"]})
        bars = "The bars are all samples: true labels are not known."
        if any(run.knows_all_truth for run in chosen.values()):
            bars = "The bars show the truth: right ones point up, wrong ones down, each on its own scale."
        caption = (
            "The loss tells right labels from wrong ones, the uncertainty right predictions from wrong ones. The "
            f"curves are the fitted Gaussians. {bars}"
        )
        numbers = pd.DataFrame(rows).explode(["weights", "means", "variances"])
        return Drawing(self.title, caption, panels, numbers, shown=2 if alone else None)

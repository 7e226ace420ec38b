"""Losses and uncertainties of the memory after each task, with the mixtures that divide it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from puridiver.report.figures.base import RunFigure
from puridiver.report.reading import Run
from puridiver.report.style import INK, Axes, Panel, colour

COMPONENTS = ("low component", "high component")
OF = {"loss": "Loss", "uncertainty": "Uncertainty of the doubted"}
BINS = 30


def component_counts(mixture: dict[str, Any], x: np.ndarray, n: int, width: float) -> list[np.ndarray]:
    """Both Gaussians as expected counts in bins of this width; zero for an empty component."""
    span, found = mixture["span"] or 1.0, []
    for weight, mean, variance in zip(mixture["weights"], mixture["means"], mixture["variances"], strict=True):
        density = norm.pdf(x, mixture["offset"] + span * mean, span * math.sqrt(variance or 1.0))
        found.append(n * (weight if variance else 0.0) * density * width)
    return found


def _paint(what: str, event: dict[str, Any], axes: Axes) -> None:
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


class Mixtures(RunFigure):
    name, title, order, internal = "mixtures", "Losses and uncertainties with their mixtures", 75, True

    def caption(self, runs: Sequence[Run]) -> str:
        bars = "The bars are all samples: true labels are not known."
        if any(run.knows_all_truth for run in runs):
            bars = "The bars show the truth: right ones point up, wrong ones down, each on its own scale."
        return (
            "The loss tells right labels from wrong ones, the uncertainty right predictions from wrong ones. The "
            f"curves are the fitted Gaussians. {bars}"
        )

    def panels(self, run: Run) -> list[Panel]:
        return [
            Panel(f"{words}, task {event['task'] + 1}", partial(_paint, what, event))
            for event in run.of_kind("split") for what, words in OF.items()
        ]  # fmt: skip

    def table(self, run: Run) -> pd.DataFrame:
        events = run.of_kind("split")
        rows = [{"task": event["task"] + 1, "of": what, **event[f"{what}_mixture"]} for event in events for what in OF]
        return pd.DataFrame(rows).explode(["weights", "means", "variances"])

"""Losses and uncertainties of the memory with the mixtures fitted to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.reading import Run, representatives
from puridiver.report.style import INK, Panel, colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 30
COMPONENTS = ("low component", "high component")


def component_counts(mixture: dict[str, Any], x: np.ndarray, n: int, width: float) -> list[np.ndarray]:
    """Both Gaussians as expected counts in bins of this width; zero for an empty component."""
    span = mixture["span"] or 1.0
    scaled, found = (x - mixture["offset"]) / span, []
    for weight, mean, variance in zip(mixture["weights"], mixture["means"], mixture["variances"], strict=True):
        spread = variance or 1.0
        density = np.exp(-((scaled - mean) ** 2) / (2 * spread)) / math.sqrt(2 * math.pi * spread)
        found.append(n * (weight if variance else 0.0) * density * width / span)
    return found


def _paint(what: str, event: dict[str, Any], axes: Axes) -> None:
    """Right ones point up and wrong ones down, each half on its own scale, so that a few are seen beside many."""
    of_loss = what == "loss"
    names = ("label right", "label wrong") if of_loss else ("prediction right", "prediction wrong")
    axes.set(xlabel="loss" if of_loss else "uncertainty: 1 - highest class probability", ylabel="samples")
    lists = (event["losses"], event["right"]) if of_loss else (event["uncertainties"], event["guess_right"])
    doubted = zip(*lists, event["sets"], strict=True)
    frame = pd.DataFrame([(v, r) for v, r, code in doubted if v is not None and (of_loss or code != 0)],
                         columns=["value", "right"])  # fmt: skip
    if frame.empty:
        axes.set(xlim=(0, 1), ylim=(0, 1), yticks=[])
        axes.text(0.5, 0.5, "every sample counts as clean", ha="center", va="center", transform=axes.transAxes)
        return
    edges = np.linspace(0, 1.02 * (frame.value.max() or 1.0), min(BINS, 5 + len(frame) // 4) + 1)
    x = np.linspace(0, edges[-1], 200)
    curves = component_counts(event[f"{what}_mixture"], x, len(frame), edges[1])
    blind = bool(frame.right.isna().any())
    halves = [("truth not known", frame.value, curves)] if blind else [
        (name, frame.value[frame.right == 1 - side], curves[side : side + 1]) for side, name in enumerate(names)
    ]  # fmt: skip
    ticks: dict[float, str] = {}
    for side, (name, values, fitted) in enumerate(halves):
        counts = np.histogram(values, edges)[0]
        # Show the whole curve, unless it is so narrow and high that the bars would vanish.
        tallest, bars = math.ceil(max(y.max() for y in fitted)), int(counts.max())
        unit = (-1 if side else 1) / (max(bars, min(tallest, 2 * bars or tallest)) or 1)
        axes.bar(edges[:-1], counts * unit, np.diff(edges), align="edge", color=colour(side), alpha=0.75,
                 hatch=("", "///")[side], label=f"{name} ({len(values)})")  # fmt: skip
        for component, y in enumerate(fitted, start=side):
            axes.plot(
                x, y * unit, color=INK, linewidth=1.5, linestyle=("-", "--")[component], label=COMPONENTS[component]
            )
        ticks |= {count * unit: str(count) for count in _round_counts(abs(1 / unit))}
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.set(xlim=(0, edges[-1]), ylim=(0 if blind else -1.12, 1.12))


def _round_counts(highest: float) -> list[int]:
    from matplotlib.ticker import MaxNLocator

    return [int(tick) for tick in MaxNLocator(3, integer=True).tick_values(0, highest) if 0 <= tick <= highest]


def _rows(label: str, event: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for what in ("loss", "uncertainty"):
        found = event[f"{what}_mixture"]
        parts = zip(COMPONENTS, found["weights"], found["means"], found["variances"], strict=True)
        for name, weight, mean, variance in parts:
            rows.append({
                "run": label, "task": event["task"] + 1, "of": what, "component": name, "weight": weight,
                "mean": found["offset"] + found["span"] * mean,
                "deviation": found["span"] * math.sqrt(max(variance, 0)),
            })  # fmt: skip
    return rows


class Mixtures(Figure):
    name, title, needs = "mixtures", "Losses and uncertainties with their mixtures", "a run that kept its losses"
    order, of_run, each_run = 80, True, True

    def usable(self, run: Run) -> bool:
        return bool(run.of_kind("split"))

    def draw(self, runs: Sequence[Run]) -> Drawing:
        chosen = {label: run for label, run in representatives(runs).items() if self.usable(run)}
        first = 0 if len(chosen) == 1 else -1  # every task of one run, the last task of each of several
        shown = [(label, event) for label, run in chosen.items() for event in run.of_kind("split")[first:]]
        panels = [
            Panel(f"{words}, {f'{label}, ' * (len(chosen) > 1)}task {event['task'] + 1}", partial(_paint, what, event))
            for label, event in shown
            for what, words in (("loss", "Loss"), ("uncertainty", "Uncertainty of the doubted"))
        ]
        bars = "The bars are all samples: true labels are not known."
        if any(run.knows_all_truth for run in chosen.values()):
            bars = "The bars show the truth: right ones point up, wrong ones down, each on its own scale."
        caption = (
            "The loss tells right labels from wrong ones, the uncertainty right predictions from wrong ones. The "
            f"curves are the fitted Gaussians. {bars}"
        )
        numbers = pd.DataFrame([row for label, event in shown for row in _rows(label, event)])
        return Drawing(self.title, caption, panels, numbers, shown=2 if len(chosen) == 1 else None)

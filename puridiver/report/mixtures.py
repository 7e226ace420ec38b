"""Pictures of how a run told right labels from wrong: losses and uncertainties with the mixtures fitted to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from puridiver.errors import DataError
from puridiver.report.reading import Run, representatives
from puridiver.report.style import INK, Panel, Picture, colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 30
ROOM = 1.12  # of the highest bar: how far a half reaches

Curve = tuple[np.ndarray, np.ndarray]


def mixtures_picture(runs: Sequence[Run]) -> Picture:
    chosen = {label: run for label, run in representatives(runs).items() if run.of_kind("split")}
    if not chosen:
        raise DataError("no run kept its losses and mixtures: they are of an older version; run them again")
    # Every task of a single run, the last task of each of several.
    first = 0 if len(chosen) == 1 else -1
    shown = [(label, event) for label, run in chosen.items() for event in run.of_kind("split")[first:]]
    return Picture(
        "mixtures",
        "Losses and uncertainties with their mixtures",
        "The learner guesses by loss which labels are right and by uncertainty which of its own predictions are; the "
        f"two curves are the Gaussians it fitted, the bars {_what_bars_are(list(chosen.values()))}",
        [panel for label, event in shown for panel in _mixture_panels(f"{label}, " * (len(chosen) > 1), event)],
        ("run", "task", "of", "component", "weight", "mean", "standard deviation"),
        [[label, *row] for label, event in shown for row in _mixture_rows(event)],
    )


def _what_bars_are(runs: Sequence[Run]) -> str:
    if not any(run.knows_all_truth for run in runs):
        of_some = " of all" if any(run.knows_truth for run in runs) else ""
        return f"all samples together: which of them are right is not known{of_some}."
    where = "" if all(run.knows_all_truth for run in runs) else ", where it is known"
    return (
        f"what was true{where}: right ones point up and wrong ones down, each on a scale of its own (their numbers "
        "stand in the legend). It works where bars and curves agree."
    )


def _mixture_panels(whose: str, event: dict[str, Any]) -> list[Panel]:
    task = f"{whose}task {event['task'] + 1}"
    return [
        Panel(f"Loss, {task}", partial(_paint_losses, event)),
        Panel(f"Uncertainty of the doubted, {task}", partial(_paint_uncertainties, event)),
    ]


def _paint_losses(event: dict[str, Any], axes: Axes) -> None:
    names = ("label right", "label wrong")
    _paint_histogram(axes, event["losses"], event["right"], names, event["loss_mixture"])
    axes.set(xlabel="loss of the memory's samples", ylabel="samples")


def _paint_uncertainties(event: dict[str, Any], axes: Axes) -> None:
    noisy = [i for i, code in enumerate(event["sets"]) if code != 0]
    axes.set(xlabel="uncertainty: 1 - highest class probability", ylabel="samples")
    if not noisy:
        axes.set(xlim=(0, 1), ylim=(0, 1), yticks=[])
        axes.text(0.5, 0.5, "every sample counts as clean", ha="center", va="center", transform=axes.transAxes)
        return
    values, right = ([event[name][i] for i in noisy] for name in ("uncertainties", "guess_right"))
    names = ("prediction right", "prediction wrong")
    _paint_histogram(axes, values, right, names, event["uncertainty_mixture"])


def _paint_histogram(
    axes: Axes, values: list[float | None], right: list[int | None], names: tuple[str, str], mixture: dict[str, Any]
) -> None:
    """Right ones point up and wrong ones down, each on a scale of its own: a few are seen beside many."""
    finite = [(v, r) for v, r in zip(values, right, strict=True) if v is not None]
    highest = max((v for v, _ in finite), default=0) or 1.0
    edges = np.linspace(0, 1.02 * highest, min(BINS, 5 + len(finite) // 4) + 1)
    curves = _component_curves(mixture, edges, len(finite))
    blind = any(r is None for _, r in finite)
    if blind:
        name = "truth not known" if all(r is None for _, r in finite) else "truth not known of all"
        ticks = _paint_half(axes, edges, [v for v, _ in finite], name, 0, curves)
    else:
        ticks = {}
        for number, name in enumerate(names):
            members = [v for v, r in finite if r == 1 - number]
            ticks |= _paint_half(axes, edges, members, name, number, curves[number : number + 1])
        axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.set(xlim=(0, edges[-1]), ylim=(0 if blind else -ROOM, ROOM))


def _paint_half(
    axes: Axes, edges: np.ndarray, values: list[float], name: str, number: int, curves: Sequence[Curve]
) -> dict[float, str]:
    """Bars of one group, upwards (number 0) or downwards (1), 1 high at most; returns where counts stand."""
    counts = np.histogram(values, edges)[0]
    # So that the curve is seen whole, unless it is narrow and far higher than the bars, which must be seen as well.
    tallest, bars = math.ceil(max(y.max() for _, y in curves)), int(counts.max())
    highest = max(bars, min(tallest, 2 * bars or tallest)) or 1
    unit = (-1 if number else 1) / highest
    axes.bar(
        edges[:-1], counts * unit, np.diff(edges), align="edge", color=colour(number), alpha=0.75,
        hatch=("", "///")[number], label=f"{name} ({len(values)})",
    )  # fmt: skip
    for component, (x, y) in enumerate(curves, start=number):
        if y.any():
            axes.plot(x, y * unit, color=INK, linewidth=1.5, linestyle=("-", "--")[component],
                      label=("low component", "high component")[component])  # fmt: skip
    return {count * unit: str(count) for count in _round_counts(highest)}


def _round_counts(highest: int) -> list[int]:
    """A few whole numbers from 0 to the highest, for ticks."""
    from matplotlib.ticker import MaxNLocator

    return [int(tick) for tick in MaxNLocator(3, integer=True).tick_values(0, highest) if 0 <= tick <= highest]


def _component_curves(mixture: dict[str, Any], edges: np.ndarray, n: int) -> list[Curve]:
    """Both Gaussians on the values' own scale, as counts a bin; zero for an empty one."""
    x = np.linspace(edges[0], edges[-1], 200)
    scaled = (x - mixture["offset"]) / mixture["span"] if mixture["span"] else x
    rows = zip(mixture["weights"], mixture["means"], mixture["variances"], strict=True)
    curves = []
    for weight, mean, variance in rows:
        spread = variance or 1.0
        density = np.exp(-((scaled - mean) ** 2) / (2 * spread)) / math.sqrt(2 * math.pi * spread)
        share = weight if variance else 0.0
        curves.append((x, n * share * density * (edges[1] - edges[0]) / (mixture["span"] or 1)))
    return curves


def _mixture_rows(event: dict[str, Any]) -> list[list[str]]:
    rows = []
    for what in ("loss", "uncertainty"):
        mixture = event[f"{what}_mixture"]
        parts = zip(mixture["weights"], mixture["means"], mixture["variances"], strict=True)
        for name, (weight, mean, variance) in zip(("low", "high"), parts, strict=True):
            centre, width = mixture["offset"] + mixture["span"] * mean, mixture["span"] * math.sqrt(variance)
            figures = [f"{figure:.3f}" for figure in (weight, centre, width)]
            rows.append([str(event["task"] + 1), what, name, *figures])
    return rows

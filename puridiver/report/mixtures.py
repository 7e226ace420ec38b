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
        "two curves are the Gaussians it fitted, the colours what was true: it works where colours and curves agree.",
        [panel for label, event in shown for panel in _mixture_panels(f"{label}, " * (len(chosen) > 1), event)],
        ("run", "task", "of", "component", "weight", "mean", "standard deviation"),
        [[label, *row] for label, event in shown for row in _mixture_rows(event)],
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
    finite = [(v, r) for v, r in zip(values, right, strict=True) if v is not None]
    highest = max((v for v, _ in finite), default=0) or 1.0
    edges = np.linspace(0, 1.02 * highest, min(BINS, 5 + len(finite) // 4) + 1)
    parts = {names[0]: [v for v, r in finite if r == 1], names[1]: [v for v, r in finite if r == 0]}
    if unknown := [v for v, r in finite if r is None]:
        parts = {"truth not known": unknown}
    axes.hist(
        list(parts.values()), bins=edges.tolist(), stacked=True, label=list(parts), alpha=0.75,
        color=[colour(number) for number in range(len(parts))], hatch=["", "///"][: len(parts)],
    )  # fmt: skip
    counts = np.histogram([v for v, _ in finite], edges)[0]
    _paint_mixture(axes, mixture, edges, len(finite))
    axes.set_ylim(0, 1.12 * max(1, counts.max()))  # a narrow Gaussian may be far higher than the bars
    axes.locator_params(axis="y", integer=True)


def _paint_mixture(axes: Axes, mixture: dict[str, Any], edges: np.ndarray, n: int) -> None:
    """Both Gaussians on the values' own scale, as counts a bin."""
    x = np.linspace(edges[0], edges[-1], 200)
    scaled = (x - mixture["offset"]) / mixture["span"] if mixture["span"] else x
    rows = zip(mixture["weights"], mixture["means"], mixture["variances"], strict=True)
    for number, (weight, mean, variance) in enumerate(rows):
        if not (weight and variance):
            continue
        density = np.exp(-((scaled - mean) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
        y = n * weight * density * (edges[1] - edges[0]) / (mixture["span"] or 1)
        axes.plot(x, y, color=INK, linewidth=1.5, linestyle=("-", "--")[number],
                  label=("low component", "high component")[number])  # fmt: skip


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

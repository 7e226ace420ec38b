"""How PuriDivER divides the memory after each task: its sets, and the mixtures that divide it."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from puridiver.report.figures import Drawing, RunFigure
from puridiver.report.reading import Run
from puridiver.report.style import INK, Axes, Panel, colour
from puridiver.trainers import SET_NAMES

BINS = 30
# What a mixture is fitted to: title, name of the values, of what is right about them, in words, and the axis.
MIXTURES = {
    "loss": ("Loss", "losses", "right", "label", "loss"),
    "uncertainty": ("Uncertainty of the doubted", "uncertainties", "guess_right", "prediction",
                    "uncertainty: 1 - highest probability"),
}  # fmt: skip


class Sets(RunFigure):
    name, title, order, internal = "sets", "Clean, re-labelled, unlabelled", 70, True
    needs = "a run whose trainer divides the memory, such as puridiver"

    def draw_run(self, run: Run) -> Drawing:
        right = " Right means: a right label in C, a right prediction in R, a wrong label in U." * run.knows_truth
        caption = (
            "After each task, the trainer divides the memory into C (labels are trusted), R (the prediction replaces "
            f"the label) and U (labels are not used).{right}"
        )
        rows = [
            (event["task"] + 1, name, event[f"{name}_size"], event[f"{name}_precision"])
            for event in run.tasks if "clean_size" in event for name in SET_NAMES
        ]  # fmt: skip
        table = pd.DataFrame(rows, columns=["task", "set", "samples", "right %"])
        table["right %"] = 100 * table["right %"].astype(float)
        paints = {"Samples in each set": _paint_sizes, "How right each set is, %": _paint_precisions}
        panels = [Panel(title, partial(paint, table)) for title, paint in paints.items() if rows]
        return Drawing(caption, panels if run.knows_truth else panels[:1], table)


def _paint_sizes(table: pd.DataFrame, axes: Axes) -> None:
    bottom: Any = 0
    for code, (name, part) in enumerate(table.groupby("set", sort=False)):
        hatch = ("", "///", "...")[code]
        axes.bar(part.task, part.samples, bottom=bottom, color=colour(code), label=name, width=0.7, hatch=hatch)
        bottom = bottom + part.samples.to_numpy()
    axes.set(xlabel="after task", xticks=table.task.unique())


def _paint_precisions(table: pd.DataFrame, axes: Axes) -> None:
    for code, (name, part) in enumerate(table.dropna().groupby("set", sort=False)):
        axes.plot(part.task, part["right %"], ("o-", "s--", "^:")[code], color=colour(code), label=name, clip_on=False)
    axes.set(xlabel="after task", xticks=table.task.unique(), ylim=(0, 101))


class Mixtures(RunFigure):
    name, title, order, internal = "mixtures", "Losses and uncertainties with their mixtures", 75, True

    def draw_run(self, run: Run) -> Drawing:
        bars = "show the truth" if run.knows_all_truth else "are all samples: not every truth is known"
        caption = (
            "The loss tells right labels from wrong ones, the uncertainty right predictions from wrong ones. The "
            f"curves are the fitted Gaussians, the bars {bars}. Counts are on a logarithmic scale."
        )
        panels, rows = [], []
        for event in run.of_kind("split"):
            for what, (title, *_) in MIXTURES.items():
                panels.append(Panel(f"{title}, task {event['task'] + 1}", partial(_paint_mixture, what, event)))
                rows.append({"task": event["task"] + 1, "of": what, **event[f"{what}_mixture"]})
        return Drawing(caption, panels, pd.DataFrame(rows).explode(["weights", "means", "variances"]))


def _paint_mixture(what: str, event: dict[str, Any], axes: Axes) -> None:
    """Bars of right and wrong ones, and the fitted components; on a log scale a few are seen beside many."""
    _, values, rights, of, x_label = MIXTURES[what]
    frame = pd.DataFrame({"value": event[values], "right": event[rights], "set": event["sets"]})
    frame = frame[frame.value.notna() & ((what == "loss") | (frame.set != 0))]
    axes.set(xlabel=x_label, ylabel="samples")
    if frame.empty:
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
        axes.plot(x, y, ("-", "--")[number], color=INK, linewidth=1.5, label=f"{('low', 'high')[number]} component")
    axes.set(xlim=(0, edges[-1]), yscale="log", ylim=(0.7, None))
    axes.yaxis.set_major_formatter("{x:,.0f}")  # powers would be formulas, which names of classes must not be
    axes.yaxis.set_minor_formatter("")


def component_counts(mixture: dict[str, Any], x: np.ndarray, n: int, width: float) -> np.ndarray:
    """Both Gaussians as expected counts in bins of this width; zero for an empty component."""
    span = mixture["span"] or 1.0
    weights, means, variances = (np.array(mixture[name])[:, None] for name in ("weights", "means", "variances"))
    density = norm.pdf(x, mixture["offset"] + span * means, span * np.sqrt(np.where(variances, variances, 1.0)))
    return n * width * np.where(variances, weights, 0.0) * density

"""Pictures of alpha, the balance of purity and diversity: over the stream, and what each static value gives."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from puridiver.errors import DataError
from puridiver.report.bands import bands_text, shade_tasks
from puridiver.report.curves import Curve, last_accuracy, paint_band, paint_group, spread_text
from puridiver.report.reading import FEW, OPTION, Group, Run, faceted, grouped
from puridiver.report.style import INK, Panel, Picture, colour, line_style
from puridiver.report.table import spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _with_alpha(runs: Sequence[Run]) -> list[Run]:
    found = [run for run in runs if alpha_curve(run)[0]]
    if not found:
        raise DataError("no run has an alpha: only PuriDivER's sampler balances purity against diversity")
    return found


def alpha_picture(runs: Sequence[Run]) -> Picture:
    """Alpha over the stream; with runs of static alphas also the accuracy that each gave."""
    with_alpha = _with_alpha(runs)
    adaptive = [run for run in with_alpha if run.static_alpha is None] or with_alpha
    highest = max(value for run in adaptive for value in alpha_curve(run)[1])
    panels = [
        Panel(f"Alpha over the stream{which}{_whose(groups, runs)}", partial(_paint_alpha, groups, highest))
        for which, groups in ((which, _as_elsewhere(groups, runs)) for which, groups in _few_at_a_time(adaptive))
    ]
    several = len({run.static_alpha for run in with_alpha}) > 1
    if several:
        panels = [*_panels_by_alpha("Last accuracy by alpha, %", with_alpha, last_accuracy), *panels]
    return Picture(
        "alpha",
        "Alpha: purity against diversity",
        "Alpha near 0 makes the memory keep what looks rightly labelled, a higher alpha what looks different from "
        "the rest; the adaptive rule raises it as the learner's loss on the stream falls. "
        f"{bands_text(with_alpha).capitalize()}.",
        panels,
        ("run", "seed", "task", "mean alpha", "last accuracy %"),
        [
            [group.label, str(run.seed), str(task + 1), f"{mean:.3f}", f"{last_accuracy(run):.1f}"]
            for group in grouped(with_alpha)
            for run in group.runs
            for task, mean in enumerate(alpha_of_tasks(run))
        ],
        missing="" if several else _no_accuracy_by_alpha(with_alpha),
    )


def _no_accuracy_by_alpha(runs: Sequence[Run]) -> str:
    alpha = runs[0].static_alpha
    which = "the adaptive alpha" if alpha is None else f"alpha={alpha:g}"
    return (
        f"accuracy by alpha is not drawn, alpha over the stream alone: all runs have {which}; it takes runs of other "
        "static alphas, too (--set alpha=0.3)"
    )


def _whose(groups: Sequence[Group], runs: Sequence[Run]) -> str:
    """The name of a line that is alone here, where the page has others: it gets no legend."""
    return f", {groups[0].label}" if len(groups) == 1 and len(grouped(runs)) > 1 else ""


def _as_elsewhere(groups: Sequence[Group], runs: Sequence[Run]) -> list[Group]:
    """The groups in the colours, and under the names, that they have in pictures of all runs."""
    everywhere = {id(run): group for group in grouped(runs) for run in group.runs}
    named = [everywhere[id(group.runs[0])] for group in groups]
    return [
        dataclasses.replace(group, number=other.number, label=other.label)
        for group, other in zip(groups, named, strict=True)
    ]


def alpha_curve(run: Run) -> Curve:
    """Alpha against samples seen: between the points of the stream, and only where there are none a task's mean."""
    found = [event for event in run.of_kind("anytime") if event.get("alpha") is not None]
    found = found or [event for event in run.tasks if event.get("alpha") is not None]
    return [event["seen"] for event in found], [event["alpha"] for event in found]


def alpha_of_tasks(run: Run) -> list[float]:
    """The mean over each task; of runs whose tasks do not tell it, over their points, which are spread evenly."""
    means: dict[int, list[float]] = {}
    for event in run.of_kind("anytime"):
        if event.get("alpha") is not None:
            means.setdefault(event["task"], []).append(event["alpha"])
    means |= {event["task"]: [event["alpha"]] for event in run.tasks if event.get("alpha") is not None}
    return [statistics.mean(means[task]) for task in sorted(means)]


def _few_at_a_time(runs: Sequence[Run], ignore: Sequence[str] = ()) -> Iterator[tuple[str, list[Group]]]:
    """Groups for one pair of axes each, with the end of its title: of one stream, and no more than can be told apart.

    Alphas of all kinds wander through the same narrow range, so that more of them are a tangle.
    """
    for stream, groups in faceted(runs, ignore):
        n_parts = -(-len(groups) // FEW)
        size = -(-len(groups) // n_parts)
        for part in range(n_parts):
            which = f" ({part + 1} of {n_parts})" if n_parts > 1 else ""
            yield stream + which, groups[part * size : (part + 1) * size]


def _paint_alpha(groups: Sequence[Group], highest: float, axes: Axes) -> None:
    for group in groups:
        paint_group(axes, group.number, group.label, [alpha_curve(run) for run in group.runs])
    shade_tasks(axes, [run for group in groups for run in group.runs])
    axes.set(xlabel="samples of the stream seen", ylabel="alpha", xlim=(0, None), ylim=(0, 1.05 * highest or 1))


def _purity(run: Run) -> float:
    return 100 * run.summary["memory_purity"]


def _diversity(run: Run) -> float:
    return run.summary["memory_diversity"]


def _panels_by_alpha(title: str, runs: Sequence[Run], value: Callable[[Run], float]) -> list[Panel]:
    """What each alpha gave, on one scale in all panels."""
    facets = list(_few_at_a_time(runs, ignore=(OPTION + "alpha",)))
    values = [value(run) for run in runs]
    margin = 0.08 * (max(values) - min(values)) or 1.0
    scale = (min(values) - margin, max(values) + margin)
    return [Panel(title + which, partial(_paint_by_alpha, groups, value, scale)) for which, groups in facets]


def _paint_by_alpha(
    groups: Sequence[Group], value: Callable[[Run], float], scale: tuple[float, float], axes: Axes
) -> None:
    """A line over the static alphas of each kind, and a dashed level for the adaptive runs of it."""
    alone, levels = len(groups) == 1, 0
    for group in groups:
        static: dict[float, list[Run]] = {}
        for run in group.runs:
            if run.static_alpha is not None:
                static.setdefault(run.static_alpha, []).append(run)
        x = sorted(static)
        points = [Group("", static[alpha]).spread(value) for alpha in x]
        paint_band(
            axes, x, points, {**line_style(group.number), "linestyle": "-"}, "static alpha" if alone else group.label
        )
        adaptive = [run for run in group.runs if run.static_alpha is None]
        if adaptive:
            mean, levels = Group("", adaptive).spread(value)[0], levels + 1
            axes.axhline(mean, color=colour(group.number), linestyle="--", linewidth=1.5,
                         label="adaptive alpha" if alone else None)  # fmt: skip
    if levels and not alone:  # once for all: each has the colour of its line
        axes.plot([], [], color=INK, linestyle="--", linewidth=1.5, label="with adaptive alpha")
    axes.set(xlabel="alpha", ylim=scale)


def diversity_picture(runs: Sequence[Run]) -> Picture:
    runs = _with_alpha(runs)
    if not any(run.static_alpha is not None for run in runs):
        raise DataError("no run has a static alpha (--set alpha=0.3): diversity against alpha needs several of them")
    pure = [run for run in runs if run.knows_truth]
    panels = _panels_by_alpha("Purity of the final memory, %", pure, _purity) if pure else []
    measured = [run for run in runs if run.summary.get("memory_diversity") is not None]
    if measured:
        panels += _panels_by_alpha("Diversity of the final memory", measured, _diversity)
    if not panels:
        raise DataError("neither purity nor diversity is known: the data have no true labels")
    return Picture(
        "diversity",
        "Diversity and purity against alpha",
        "Alpha weighs a varied memory against clean labels: purity shows what a higher one costs in right labels, "
        "diversity what it brings in variety.",
        panels,
        ("run", "alpha", "purity %", "diversity", "last accuracy %"),
        [_alpha_row(group) for group in grouped(runs)],
    )


def _alpha_row(group: Group) -> list[str]:
    first, n = group.runs[0], len(group.runs)
    alpha = "adaptive" if first.static_alpha is None else f"{first.static_alpha:g}"
    measured = all(run.summary.get("memory_diversity") is not None for run in group.runs)
    diversity = spread_text(*group.spread(_diversity), n, 2) if measured else "-"
    purity = spread([run.summary["memory_purity"] for run in group.runs])
    return [group.label, alpha, purity, diversity, spread([run.summary["last_accuracy"] for run in group.runs])]

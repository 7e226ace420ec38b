"""Alpha, the balance of purity and diversity: over the stream, and the accuracy that each fixed value gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.figures.lines import SEEN, TASK_BANDS, Curve, line_panels, shade_tasks
from puridiver.report.reading import Facet, Run
from puridiver.report.style import INK, Panel, colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def has_alpha(run: Run) -> bool:
    return any(event.get("alpha") is not None for event in run.of_kind("anytime", "task"))


def _over_stream(run: Run) -> Curve:
    """Alpha since the last evaluation; of a run without evaluations between tasks, the mean of each task."""
    events = [event for event in run.of_kind("anytime") if event.get("alpha") is not None] or run.tasks
    return [(event["seen"], event["alpha"]) for event in events if event.get("alpha") is not None]


def panels_by_alpha(
    runs: Sequence[Run], title: str, value: Callable[[Run], float | None]
) -> tuple[list[Panel], pd.DataFrame]:
    """A line over the fixed alphas of each kind of run, and a dashed level for its adaptive runs."""

    def point(run: Run) -> Curve:
        found = value(run)
        return [] if found is None or run.static_alpha is None or not has_alpha(run) else [(run.static_alpha, found)]

    return line_panels(
        runs, title, point, partial(_mark_adaptive, runs, value), by_x=True, markers=True, ignore="alpha",
        xlabel="alpha",
    )  # fmt: skip


def _mark_adaptive(runs: Sequence[Run], value: Callable[[Run], float | None], axes: Axes, facet: Facet) -> None:
    levels = 0
    for group in facet.groups:
        like = {name: v for name, v in group.runs[0].settings.items() if name != "alpha"}
        adaptive = [value(run) for run in runs if run.static_alpha is None and run.column == group.column
                    and {n: v for n, v in run.settings.items() if n != "alpha"} == like]  # fmt: skip
        known = [found for found in adaptive if found is not None]
        if known:
            axes.axhline(sum(known) / len(known), color=colour(group.number), linestyle="--", linewidth=1.5)
            levels += 1
    if levels:
        axes.plot([], [], color=INK, linestyle="--", linewidth=1.5, label="with the adaptive alpha")


def last_accuracy(run: Run) -> float:
    return 100 * run.summary["last_accuracy"]


class Alpha(Figure):
    name, title = "alpha", "Alpha: purity against diversity"
    needs = "a run with an alpha: only PuriDivER's sampler balances purity against diversity"
    order, of_run, of_several = 40, True, True

    def usable(self, run: Run) -> bool:
        return has_alpha(run)

    def draw(self, runs: Sequence[Run]) -> Drawing:
        with_alpha = [run for run in runs if has_alpha(run)]
        adaptive = [run for run in with_alpha if run.static_alpha is None] or with_alpha
        ids = {id(run) for run in adaptive}
        panels, numbers = line_panels(
            runs, "Alpha over the stream", lambda run: _over_stream(run) if id(run) in ids else [], shade_tasks,
            xlabel=SEEN, xlim=(0, None), ylim=(0, None),
        )  # fmt: skip
        note = ""
        if len({run.static_alpha for run in with_alpha}) > 1:
            first, more = panels_by_alpha(runs, "Last accuracy by alpha, %", last_accuracy)
            panels, numbers = [*first, *panels], pd.concat([more, numbers])
        else:
            note = "accuracy by alpha is not drawn: it needs runs of several fixed alphas (--set alpha=0.3)"
        caption = (
            "A low alpha keeps samples that look correctly labelled, a high one samples that differ from the rest. "
            f"The adaptive rule raises alpha as the loss on the stream falls. {TASK_BANDS}"
        )
        return Drawing(self.title, caption, panels, numbers, note)

"""Alpha, the balance of purity and diversity: over the stream, and the accuracy that each fixed value gives."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from puridiver.report.figures._lines import STREAM, TASK_BANDS, Curve, Drawn, line_panels, shade_tasks
from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.reading import Facet, Run, grouped
from puridiver.report.style import INK, Axes, colour


def over_stream(run: Run) -> Curve:
    """Alpha since the last evaluation; of a run without evaluations between tasks, the mean of each task."""
    events = [event for event in run.of_kind("anytime") if event["alpha"] is not None] or run.tasks
    return [(event["seen"], event["alpha"]) for event in events if event["alpha"] is not None]


def by_alpha(runs: Sequence[Run], title: str, metric: str, scale: float = 100) -> Drawn:
    """A metric of each kind of run as a line over its fixed alphas, and a dashed level for its adaptive runs."""

    def point(run: Run) -> Curve:
        value = run.summary[metric] if over_stream(run) else None
        return [] if value is None or run.static_alpha is None else [(run.static_alpha, scale * value)]

    def mark_adaptive(axes: Axes, facet: Facet) -> None:
        shown = {(group.label, group.column) for group in facet.groups}
        for group in grouped(runs, ignore="alpha"):
            level = pd.Series([run.summary[metric] for run in group.runs if run.static_alpha is None], dtype=float)
            if level.notna().any() and (group.label, group.column) in shown:
                axes.axhline(scale * level.mean(), color=colour(group.number), linestyle="--", linewidth=1.5)
        axes.plot([], [], color=INK, linestyle="--", linewidth=1.5, label="with the adaptive alpha")

    return line_panels(runs, title, point, mark_adaptive, by_x=True, ignore="alpha", xlabel="alpha")


class Alpha(Figure):
    name, title = "alpha", "Alpha: purity against diversity"
    needs = "a run with an alpha: only PuriDivER's sampler balances purity against diversity"
    order, of_run, of_several, internal = 80, True, True, True

    def usable(self, run: Run) -> bool:
        return bool(over_stream(run))

    def draw(self, runs: Sequence[Run]) -> Drawing:
        with_alpha = [run for run in runs if self.usable(run)]
        shown = {id(run) for run in with_alpha if run.static_alpha is None} or set(map(id, with_alpha))
        panels, numbers = line_panels(
            runs, "Alpha over the stream", lambda run: over_stream(run) if id(run) in shown else [], shade_tasks,
            **STREAM, ylim=(0, None),
        )  # fmt: skip
        if len({run.static_alpha for run in with_alpha}) > 1:
            first, more = by_alpha(runs, "Last accuracy by alpha, %", "last_accuracy")
            panels, numbers = [*first, *panels], pd.concat([more, numbers])
        caption = (
            "A low alpha keeps samples that look correctly labelled, a high one samples that differ from the rest. "
            f"The adaptive rule raises alpha as the loss on the stream falls. {TASK_BANDS}"
        )
        return Drawing(caption, panels, numbers)

"""Alpha, the balance of purity and diversity: over the stream, and what each fixed value gives."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.figures.curves import STREAM, TASK_BANDS, Curve, Drawn, line_panels, shade_tasks
from puridiver.report.reading import Facet, Run, grouped
from puridiver.report.style import INK, Axes, colour


def _over_stream(run: Run) -> Curve:
    """Alpha since the last evaluation; of a run without evaluations between tasks, the mean of each task."""
    events = [event for event in run.of_kind("anytime") if event.get("alpha") is not None] or run.tasks
    return [(event["seen"], event["alpha"]) for event in events if event.get("alpha") is not None]


def _by_alpha(runs: Sequence[Run], title: str, metric: str, scale: float = 100) -> Drawn:
    """A metric of each kind of run as a line over its fixed alphas, and a dashed level for its adaptive runs."""

    def point(run: Run) -> Curve:
        value = run.summary[metric] if _over_stream(run) else None
        return [] if value is None or run.static_alpha is None else [(run.static_alpha, scale * value)]

    def mark_adaptive(axes: Axes, facet: Facet) -> None:
        numbers = {group.number for group in facet.groups}
        for group in grouped(runs, ignore="alpha"):
            level = pd.Series([run.summary[metric] for run in group.runs if run.static_alpha is None], dtype=float)
            if level.notna().any() and group.number in numbers:
                axes.axhline(scale * level.mean(), color=colour(group.number), linestyle="--", linewidth=1.5)
        axes.plot([], [], color=INK, linestyle="--", linewidth=1.5, label="with the adaptive alpha")

    return line_panels(runs, title, point, mark_adaptive, by_x=True, ignore="alpha", xlabel="alpha")


class Alpha(Figure):
    name, title = "alpha", "Alpha: purity against diversity"
    needs = "a run with an alpha: only PuriDivER's sampler balances purity against diversity"
    order, of_run, of_several = 40, True, True

    def usable(self, run: Run) -> bool:
        return bool(_over_stream(run))

    def draw(self, runs: Sequence[Run]) -> Drawing:
        with_alpha = [run for run in runs if self.usable(run)]
        shown = {id(run) for run in with_alpha if run.static_alpha is None} or set(map(id, with_alpha))
        panels, numbers = line_panels(
            runs, "Alpha over the stream", lambda run: _over_stream(run) if id(run) in shown else [], shade_tasks,
            **STREAM, ylim=(0, None),
        )  # fmt: skip
        note = "accuracy by alpha is not drawn: it needs runs of several fixed alphas (--set alpha=0.3)"
        if len({run.static_alpha for run in with_alpha}) > 1:
            first, more = _by_alpha(runs, "Last accuracy by alpha, %", "last_accuracy")
            panels, numbers, note = [*first, *panels], pd.concat([more, numbers]), ""
        caption = (
            "A low alpha keeps samples that look correctly labelled, a high one samples that differ from the rest. "
            f"The adaptive rule raises alpha as the loss on the stream falls. {TASK_BANDS}"
        )
        return Drawing(self.title, caption, panels, numbers, note)


class Diversity(Figure):
    name, title = "diversity", "Diversity and purity against alpha"
    needs = "a run with a fixed alpha (--set alpha=0.3) whose purity or diversity is known"
    order, of_several = 60, True

    def usable(self, run: Run) -> bool:
        known = run.knows_truth or run.summary["memory_diversity"] is not None
        return known and run.static_alpha is not None and bool(_over_stream(run))

    def draw(self, runs: Sequence[Run]) -> Drawing:
        purities, numbers = _by_alpha(runs, "Purity of the final memory, %", "memory_purity")
        diversities, more = _by_alpha(runs, "Diversity of the final memory", "memory_diversity", 1)
        caption = "A higher alpha gains variety (diversity) and loses right labels (purity)."
        return Drawing(self.title, caption, [*purities, *diversities], pd.concat([numbers, more]))

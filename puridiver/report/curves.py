"""Pictures of what changes along the stream or from method to method: lines, with the spread over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from puridiver.errors import DataError
from puridiver.report.bands import bands_text, shade_tasks
from puridiver.report.reading import Facet, Group, Run, faceted, grouped, uncrowded
from puridiver.report.style import INK, Panel, Picture, line_style
from puridiver.report.table import spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curve = tuple[list[float], list[float]]
FAINT_LINES = 12  # of single runs: more of them hide the means
MEMORY_MEANING = (
    "Purity is the share of the memory's labels that are right: above the dotted line the learner keeps cleaner "
    "labels than the stream brings. Diversity is how far apart the images of one class are."
)


# Along the stream --------------------------------------------------------------------------------------------------


def curve(run: Run, figure: str, scale: float = 100) -> Curve:
    """A figure at the anytime points and the ends of tasks, against samples seen; points without it are left out."""
    events = [event for event in _points(run) if event.get(figure) is not None]
    return [event["seen"] for event in events], [scale * event[figure] for event in events]


def judged_on(runs: Sequence[Run]) -> str:
    """What accuracy was measured on: "test", "validation", or both where runs differ."""
    return " or ".join(sorted({run.summary["evaluated_on"] for run in runs}))


def accuracy_title(runs: Sequence[Run]) -> str:
    return f"{judged_on(runs).capitalize()} accuracy, %"


def _rightly(runs: Sequence[Run]) -> str:
    return "rightly" if all(run.knows_all_truth for run in runs) else "as labelled"


def accuracy_picture(runs: Sequence[Run]) -> Picture:
    groups = grouped(runs)
    return Picture(
        "accuracy",
        "Accuracy over the stream",
        f"How many of the {judged_on(runs)} images the learner names {_rightly(runs)} at each moment: while a task "
        f"streams in, and again after it has trained on its memory at the task's end ({bands_text(runs)}).",
        _stream_panels(accuracy_title(runs), "accuracy", runs),
        (*_places(groups)[0], *(f"accuracy %, {group.label}" for group in groups)),
        _stream_rows(groups, ("accuracy",)),
    )


def stream_picture(runs: Sequence[Run]) -> Picture:
    """Accuracy and purity side by side, for `puridiver plot`."""
    left = accuracy_picture(runs)
    if not any(run.knows_truth for run in runs):
        return replace(left, name="stream")
    right, lead = memory_picture(runs), len(_places(grouped(runs))[0])
    accuracies = _stream_panels(accuracy_title(runs), "accuracy", runs)
    purities = _stream_panels("Purity of the memory, %", "memory_purity", _with_truth(runs))
    if len(accuracies) == len(purities):  # those of one stream side by side
        panels = [panel for pair in zip(accuracies, purities, strict=True) for panel in pair]
    else:
        panels = [*accuracies, *purities]
    return Picture(
        "stream",
        "Accuracy and purity over the stream",
        f"{left.meaning} {MEMORY_MEANING}",
        panels,
        [*left.headings, *right.headings[lead:]],
        [[*first, *second[lead:]] for first, second in zip(left.rows, right.rows, strict=True)],
    )


def memory_picture(runs: Sequence[Run]) -> Picture:
    """Purity and, where it was measured, diversity."""
    groups = grouped(runs)
    if not any(run.knows_truth for run in runs):
        raise DataError("how right the memory's labels are is not known: the data have no true labels")
    panels = _stream_panels("Purity of the memory, %", "memory_purity", _with_truth(runs))
    figures, headings = ["memory_purity"], [f"purity %, {g.label}" for g in groups]
    if any(curve(run, "memory_diversity")[0] for run in runs):
        panels += _stream_panels("Diversity of the memory", "memory_diversity", runs)
        figures.append("memory_diversity")
        headings += [f"diversity, {g.label}" for g in groups]
    return Picture(
        "memory",
        "What the memory is worth",
        f"{MEMORY_MEANING} {bands_text(runs).capitalize()}.",
        panels,
        (*_places(groups)[0], *headings),
        _stream_rows(groups, figures),
    )


def _with_truth(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.knows_truth]


def _stream_panels(title: str, figure: str, runs: Sequence[Run]) -> list[Panel]:
    return [Panel(title + facet.title, partial(_paint_stream, facet, figure)) for facet in uncrowded(runs)]


def _paint_stream(facet: Facet, figure: str, axes: Axes) -> None:
    groups, percent = facet.groups, figure != "memory_diversity"
    n_runs = sum(len(group.runs) for group in groups)

    def curves(group: Group) -> list[Curve]:
        return [curve(run, figure, 100 if percent else 1) for run in group.runs]

    paint_behind(axes, [_mean_curve(curves(group)) for group in facet.others])
    for group in groups:
        alone = len(groups) == 1 and not facet.others
        label = "right labels in the memory" if alone else group.label
        paint_group(axes, group.number, label, curves(group), each=n_runs <= FAINT_LINES and not facet.others)
    shade_tasks(axes, [run for group in groups for run in group.runs])
    if figure == "memory_purity":
        _paint_noise(axes, groups)
    axes.set(xlabel="samples of the stream seen", xlim=(0, None))
    axes.set_ylim(*((0, 101) if percent else (0, None)))


def paint_group(axes: Axes, number: int, label: str, curves: Sequence[Curve], each: bool = True) -> None:
    """The mean over seeds; with `each`, every seed faintly behind it."""
    style = {**line_style(number), "marker": ""}
    if each and len(curves) > 1:
        for x, y in curves:
            axes.plot(x, y, color=style["color"], alpha=0.25, linewidth=0.8)
    x, y = _mean_curve(curves)
    seeds = f" (mean of {len(curves)} seeds)" if len(curves) > 1 else ""
    axes.plot(x, y, **style, label=label + seeds)


def _mean_curve(curves: Sequence[Curve]) -> Curve:
    """Point by point: streams of other seeds end their tasks at slightly other counts."""
    points = list(zip(*(zip(x, y, strict=True) for x, y in curves), strict=False))
    return [statistics.mean(x for x, _ in point) for point in points], [
        statistics.mean(y for _, y in point) for point in points
    ]


def paint_behind(axes: Axes, curves: Sequence[Curve]) -> None:
    """Curves to compare with, which are shown by themselves elsewhere."""
    for number, (x, y) in enumerate(curves):
        axes.plot(x, y, color=INK, alpha=0.3, linewidth=0.8, zorder=1, label=None if number else "the other methods")


def _paint_noise(axes: Axes, groups: Sequence[Group]) -> None:
    rates = {run.summary["stream_noise"] for group in groups for run in group.runs} - {None}
    shares = {round(100 * (1 - rate), 1) for rate in rates}
    for number, share in enumerate(sorted(shares)):
        label = "right labels in the stream" if not number else None
        axes.axhline(share, color=INK, linestyle=":", linewidth=1.3, label=label)


def _points(run: Run) -> list[dict[str, Any]]:
    return [event for event in run.events if event["event"] in ("anytime", "task")]


def _places(groups: Sequence[Group]) -> tuple[list[str], list[list[str]]]:
    """Where the points of the curves lie, as headings and columns: once where all groups have the same, else of each.

    Seeds of a group may differ by a few samples: its first run speaks for them.
    """
    seen = [[str(event["seen"]) for event in _points(group.runs[0])] for group in groups]
    if all(places == seen[0] for places in seen):
        return ["samples seen"], [seen[0]]
    most = max(map(len, seen))
    padded = [[*places, *["-"] * (most - len(places))] for places in seen]
    headings = [f"samples seen, {group.label}" for group in groups]
    return ["point", *headings], [[str(number + 1) for number in range(most)], *padded]


def _stream_rows(groups: Sequence[Group], figures: Sequence[str]) -> list[list[str]]:
    """Means over seeds, point by point, after their `_places`."""
    _, places = _places(groups)
    columns = [_means(group, figure, len(places[0])) for figure in figures for group in groups]
    return [list(row) for row in zip(*places, *columns, strict=True)]


def _means(group: Group, figure: str, n: int) -> list[str]:
    scale, digits = (1, 2) if figure == "memory_diversity" else (100, 1)
    events = [_points(run) for run in group.runs]
    at = [[run[i][figure] for run in events if i < len(run) and run[i].get(figure) is not None] for i in range(n)]
    return [f"{scale * statistics.mean(known):.{digits}f}" if known else "-" for known in at]


# Over tasks --------------------------------------------------------------------------------------------------------


def tasks_picture(runs: Sequence[Run]) -> Picture:
    """Accuracy and, where the true labels of any run are known, purity."""
    groups = grouped(runs)
    meaning = "Each line is a method's mean over seeds, the band its standard deviation"
    figures = {"accuracy": accuracy_title(runs)}
    if any(_is_known(group, "memory_purity") for group in groups):
        meaning += "; beside the accuracy stands how clean the memory was meanwhile"
        figures["memory_purity"] = "Purity of the memory, %"
    words = [name.removeprefix("memory_") for name in figures]
    return Picture(
        "tasks",
        f"{' and '.join(words).capitalize()} after each task",
        f"{meaning}.",
        [
            Panel(title + facet.title, partial(_paint_tasks, facet, name))
            for facet in uncrowded(runs)
            for name, title in figures.items()
            if any(_is_known(group, name) for group in facet.groups)
        ],
        ("method", "task", *(f"{word} %" for word in words)),
        [
            [group.label, str(task + 1), *(_with_spread(group, task, name) for name in figures)]
            for group in groups
            for task in range(_n_tasks(group))
        ],
    )


def _n_tasks(group: Group) -> int:
    return min(len(run.tasks) for run in group.runs)


def _tasks(group: Group) -> list[float]:
    return [task + 1 for task in range(_n_tasks(group))]


def _spreads(group: Group, name: str) -> list[tuple[float, float]]:
    """Mean and deviation over seeds after each task."""
    return [group.spread(partial(_at_task, name, task)) for task in range(_n_tasks(group))]


def _at_task(name: str, task: int, run: Run) -> float:
    return 100 * run.tasks[task][name]


def _with_spread(group: Group, task: int, name: str) -> str:
    if not _is_known(group, name):
        return "-"
    return spread([run.tasks[task][name] for run in group.runs])


def _is_known(group: Group, name: str) -> bool:
    return name != "memory_purity" or all(run.knows_truth for run in group.runs)


def spread_text(mean: float, deviation: float, n: int, digits: int = 1) -> str:
    """Of what is no share; percents are by `spread`, so that tables and pages round alike."""
    return f"{mean:.{digits}f}" if n == 1 else f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def _paint_tasks(facet: Facet, name: str, axes: Axes) -> None:
    groups, others = ([group for group in part if _is_known(group, name)] for part in (facet.groups, facet.others))
    paint_behind(axes, [(_tasks(group), [mean for mean, _ in _spreads(group, name)]) for group in others])
    for group in groups:
        paint_band(axes, _tasks(group), _spreads(group, name), line_style(group.number), group.label)
    if name == "memory_purity":
        _paint_noise(axes, groups)
    axes.set(xlabel="task", ylim=(0, 101))
    axes.locator_params(axis="x", integer=True)


def paint_band(
    axes: Axes, x: Sequence[float], points: Sequence[tuple[float, float]], style: dict[str, Any], label: str
) -> None:
    means = [mean for mean, _ in points]
    axes.plot(x, means, **style, label=label, clip_on=False)
    low, high = [m - d for m, d in points], [m + d for m, d in points]
    axes.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)


# Time --------------------------------------------------------------------------------------------------------------


def last_accuracy(run: Run) -> float:
    return 100 * run.summary["last_accuracy"]


def time_picture(runs: Sequence[Run]) -> Picture:
    groups = grouped(runs)
    return Picture(
        "time",
        "Accuracy against training time",
        "Up and to the left is better: more accurate in less time. Seconds are of training alone, without evaluation, "
        "and compare only between runs on one device.",
        [Panel(f"Last accuracy, %{stream}", partial(_paint_time, members)) for stream, members in faceted(runs)],
        ("method", "training seconds", "last accuracy %", "device"),
        [
            [
                group.label,
                spread_text(*group.spread(lambda run: run.training_seconds), len(group.runs)),
                spread([run.summary["last_accuracy"] for run in group.runs]),
                ", ".join(sorted({run.summary.get("device", "unknown") for run in group.runs})),
            ]
            for group in groups
        ],
    )


def _paint_time(groups: Sequence[Group], axes: Axes) -> None:
    for group in groups:
        (x, dx), (y, dy) = group.spread(lambda run: run.training_seconds), group.spread(last_accuracy)
        style = {**line_style(group.number), "linestyle": "", "markersize": 8, "label": group.label}
        axes.errorbar([x], [y], xerr=[dx], yerr=[dy], capsize=2, elinewidth=1, **style)
    longest = max(sum(group.spread(lambda run: run.training_seconds)) for group in groups)
    axes.set(xlabel="seconds of training", xlim=(0, 1.06 * longest or 1), ylim=(0, 101))  # no marker is cut

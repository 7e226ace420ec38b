"""The grey bands behind curves along a stream: its tasks, where all runs shown have the same ones."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from puridiver.report.reading import Run
from puridiver.report.style import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Zone = tuple[float, float]


def task_bands(runs: Sequence[Run]) -> list[tuple[Zone, Zone]]:
    """Every second task as the zones in which it begins and ends: from the first run to do so to the last.

    None where runs have other tasks than one another: bands of one of them would be wrong for the rest.
    """
    borders = [[0, *(event["seen"] for event in run.tasks)] for run in runs]
    if len({len(of_run) for of_run in borders}) != 1:
        return []
    zones = [(min(at), max(at)) for at in zip(*borders, strict=True)]
    tasks = list(itertools.pairwise(zones))
    if any(begun[1] >= ended[0] for begun, ended in tasks):  # one run is through with a task that another has not begun
        return []
    return tasks[1::2]


def shade_tasks(axes: Axes, runs: Sequence[Run]) -> None:
    """A grey band where all runs are in a task, paler where only some of them are."""
    for begun, ended in task_bands(runs):
        for (start, end), alpha in (((begun[1], ended[0]), 0.07), (begun, 0.03), (ended, 0.03)):
            if start < end:
                axes.axvspan(start, end, color=INK, alpha=alpha, linewidth=0)


def bands_text(runs: Sequence[Run]) -> str:
    """What a caption says of the bands."""
    several = ", paler where only some of the runs are in them; where the runs' tasks differ there are none"
    return "grey bands are tasks" + several * (len(runs) > 1)

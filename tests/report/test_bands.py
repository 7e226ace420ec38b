from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from puridiver.report.bands import shade_tasks, task_bands
from puridiver.report.figures import FIGURES
from puridiver.report.reading import Run, find_runs


def run_of(*ends: int) -> Run:
    """A run of which only the ends of its tasks are known."""
    return Run(Path(), {}, {}, [{"event": "task", "seen": end} for end in ends], {})


@pytest.mark.parametrize(
    ("ends", "shaded"),
    [
        ([(10, 20, 30, 40)], [(10, 20, 0.07), (30, 40, 0.07)]),
        ([(10, 20, 30)] * 3, [(10, 20, 0.07)]),
        ([(10, 20, 30), (12, 19, 30)], [(12, 19, 0.07), (10, 12, 0.03), (19, 20, 0.03)]),
        ([(10, 20, 30), (10, 20)], []),  # another number of tasks
        ([(10, 20, 30), (20, 25, 30)], []),  # the first has done its second task when the other begins it
    ],
)
def test_bands_are_dark_only_where_every_run_is_in_the_task(
    ends: list[tuple[int, ...]], shaded: list[tuple[float, float, float]]
) -> None:
    axes = Figure().add_subplot()
    shade_tasks(axes, [run_of(*of_run) for of_run in ends])
    found = [(band.get_x(), band.get_x() + band.get_width(), band.get_alpha()) for band in axes.patches]
    assert found == [pytest.approx(band) for band in shaded]


def test_the_order_of_the_runs_does_not_matter() -> None:
    runs = [run_of(10, 20, 30), run_of(12, 19, 30), run_of(11, 21, 30)]
    assert task_bands(runs) == task_bands(runs[::-1]) == [((10, 12), (19, 21))]


@pytest.mark.parametrize("name", ["accuracy", "stream", "memory", "alpha"])
def test_captions_say_what_the_bands_are(grid: Path, name: str) -> None:
    runs, _ = find_runs([grid])
    assert FIGURES[name](runs).meaning.lower().count("paler where only some of the runs are in them") == 1
    (one,) = (run for run in runs if run.folder.name == "puridiver-0")
    assert FIGURES[name]([one]).meaning.lower().count("grey bands are tasks") == 1
    assert "paler" not in FIGURES[name]([one]).meaning

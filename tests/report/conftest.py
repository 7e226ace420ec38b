"""Real runs, small enough for a test, and the pages made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from puridiver.data import from_arrays
from puridiver.report import figures
from puridiver.report.page import write_page
from puridiver.report.reading import find_runs
from puridiver.runs.config import RunConfig
from puridiver.runs.experiment import Experiment
from tests.learner_samples import patterns

# Class names that would do harm in a page, in a formula or in a plot.
EVIL = ("<script>alert(1)</script>", '=HYPERLINK("http://x")', "$\\frac{", "-1+2", '猫, "cat"')


def small(**changes: object) -> RunConfig:
    settings: dict = {
        "tasks": 2, "memory": 40, "epochs": 2, "device": "cpu", "diversity": False, "anytime_points": 2,
        "stream_limit": 64, "test_limit": 60,
    }  # fmt: skip
    return RunConfig(**{**settings, **changes})


@pytest.fixture(scope="session")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods, two seeds of one, a fixed alpha; digits."""
    folder = tmp_path_factory.mktemp("grid")
    cells = {
        "puridiver-0": {},
        "puridiver-1": {"seed": 1},
        "alpha": {"options": {"alpha": 0.3}},
        "plain-0": {"sampler": "rsv", "trainer": "plain"},
    }
    for name, changes in cells.items():
        Experiment(small(**changes)).run(folder / "cells" / name)
    return folder


@pytest.fixture(scope="session")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose classes have EVIL names."""
    train, test = patterns(120, n_classes=4, seed=1), patterns(40, n_classes=4, seed=2)
    source = from_arrays(*train, *test, class_names=EVIL)
    folder = tmp_path_factory.mktemp("evil") / "run"
    config = small(data="patterns", network="small", stream_limit=None, evaluate_epochs=True)
    Experiment(config, source=source).run(folder)
    return folder


@pytest.fixture(scope="session")
def page(evil: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a single run, whose classes have EVIL names."""
    return write_page(*find_runs([evil]), tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="session")
def comparison(grid: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a grid; one run is shown in detail, to save time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(figures, "DETAILED", 1)
        return write_page(*find_runs([grid]), tmp_path_factory.mktemp("page") / "comparison.html")

"""Real runs, small enough for a test, and the pages made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from puridiver.data import from_arrays
from puridiver.report.page import write_page
from puridiver.report.reading import find_runs
from puridiver.runs.config import RunConfig
from puridiver.runs.experiment import Experiment
from tests.learner_samples import TINY, patterns
from tests.wild import write_classes

# Class names that would do harm in a page, in a formula or in a plot, if they were let.
EVIL = ("<script>alert(1)</script>", '=HYPERLINK("http://x")', "$\\frac{", "-1+2", '猫, "cat"')


def small(**changes: object) -> RunConfig:
    settings: dict = {
        "tasks": 2, "memory": 60, "epochs": 4, "device": "cpu", "diversity": False, "anytime_points": 2,
        "stream_limit": 96, "test_limit": 100,
    }  # fmt: skip
    return RunConfig(**{**settings, **changes})


@pytest.fixture(scope="session")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grid's folder: two methods, two seeds of one, a static alpha; digits."""
    folder = tmp_path_factory.mktemp("grid")
    cells = {
        "puridiver-0": {"evaluate_epochs": True},
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
    config = small(data="patterns", memory=40, network="small", epochs=2, stream_limit=None, options=TINY)
    Experiment(config, source=source).run(folder)
    return folder


@pytest.fixture(scope="session")
def blind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on image files, whose true labels nobody knows."""
    folder = tmp_path_factory.mktemp("blind")
    files = write_classes(folder / "files", 20)
    changes = {"memory": 15, "network": "small", "epochs": 2, "stream_limit": None, "test_share": 0.2}
    Experiment(small(data=str(files), data_root=str(folder), **changes)).run(folder / "run")
    return folder / "run"


@pytest.fixture(scope="session")
def page(grid: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a single run."""
    runs, notes = find_runs([grid / "cells" / "puridiver-0"])
    return write_page(runs, notes, tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="session")
def evil_page(evil: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(*find_runs([evil]), tmp_path_factory.mktemp("page") / "evil.html")


@pytest.fixture(scope="session")
def comparison(grid: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a whole grid."""
    return write_page(*find_runs([grid]), tmp_path_factory.mktemp("page") / "comparison.html")

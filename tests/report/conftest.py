"""Real runs, small enough for a test, the pages made of them, and a browser without a network."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from puridiver.data import from_arrays
from puridiver.report import figures
from puridiver.report import page as pages
from puridiver.report.page import write_page
from puridiver.report.reading import find_runs
from puridiver.runs.config import RunConfig
from puridiver.runs.experiment import Experiment
from tests.learner_samples import patterns

# Class names that would do harm in a page, in a formula or in a plot.
EVIL = ("<script>alert(1)</script>", '=HYPERLINK("http://x")', "$\\frac{", "-1+2", '猫, "cat"')


def small(**changes: object) -> RunConfig:
    settings: dict = {
        "sampler": "puridiver", "trainer": "puridiver", "tasks": 2, "memory": 40, "epochs": 1, "device": "cpu",
        "diversity": False, "anytime_points": 2, "stream_limit": 64, "test_limit": 40,
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
    """The page of a grid; one run is shown in detail, and three figures, to save time."""
    few = {name: figures.figures()[name] for name in ("tasks", "alpha", "confusion")}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pages, "DETAILED", 1)
        patched.setattr(pages, "figures", lambda: few)
        return write_page(*find_runs([grid]), tmp_path_factory.mktemp("page") / "comparison.html")


class Opened:
    """A page as a reader sees it; complaints, dialogs and requests are kept."""

    def __init__(self, browser: Any, path: Path, width: int = 1100) -> None:
        viewport = {"width": width, "height": 800}
        self.context = browser.new_context(viewport=viewport, offline=True)
        self.complaints, self.dialogs, self.requests = list[str](), list[str](), list[str]()
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.dialogs.append(dialog.type), dialog.accept()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def choose(self, **values: str) -> None:
        for name, value in values.items():
            control = self.page.locator(f".gallery [name={name}]")
            control.fill(value) if name == "text" else control.select_option(value)

    def arrivals(self) -> list[int]:
        """What the gallery shows on its first page, in order."""
        return self.page.locator(".cards li").evaluate_all("cards => cards.map(c => Number(c.dataset.arrival))")

    def download(self, button: str = ".download") -> tuple[Path, list[list[str]]]:
        with self.page.expect_download() as download:
            self.page.locator(button).click()
        path = Path(download.value.path())
        text = path.read_text(encoding="utf-8")
        assert text.startswith("\ufeff") == (not text.isascii())  # which spreadsheets need, and others do not
        return path, list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")))


@pytest.fixture
def opened(browser: Any, page: Path) -> Iterator[Opened]:
    """The page of the test's module in the browser, which must not complain or run what class names say."""
    found = Opened(browser, page)
    yield found
    found.context.close()
    assert found.complaints == []
    assert "alert" not in found.dialogs

"""Shared by all tests: one thread per worker, repeatable examples, and no GPU test without a GPU."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import settings

from puridiver import options, plugins

os.environ["COLUMNS"] = "160"  # tables must not wrap by the width of whoever runs the tests
os.environ["PURIDIVER_COMMIT"] = "tested"  # runs need not ask git
torch.set_num_threads(1)  # several workers with several threads each would starve one another

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None, max_examples=40)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def restored_torch_switches() -> Iterator[None]:
    """`choose_runtime` sets one for the whole process: no test may depend on an earlier one."""
    before = torch.backends.cudnn.deterministic
    torch.backends.cudnn.deterministic = False
    yield
    torch.backends.cudnn.deterministic = before


@pytest.fixture(scope="session", autouse=True)
def few_bootstrap_draws() -> Iterator[None]:
    """Audits draw fewer samples for their intervals, to save time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("puridiver.auditing.noise_model.DRAWS", 30)
        yield


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One for all pages: a process cannot have two."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("needs Debian's chromium")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def forgotten_plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget after the test what it registered."""
    monkeypatch.setenv(plugins.ENVIRONMENT, "")
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = [*(registry for _, registry in plugins.FAMILIES.values()), plugins._loaded, plugins._origins]
    known.append(options._methods)
    copies = [dict(table) for table in known]
    yield
    for table, copy in zip(known, copies, strict=True):
        table.clear()
        table.update(copy)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))

"""What the tests of grids share."""

from __future__ import annotations

import pytest


@pytest.fixture
def quick_diversity(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The joint network that diversity is measured with, trained for one epoch and kept out of the user's cache."""
    monkeypatch.setattr("puridiver.metrics.joint.EPOCHS", 1)
    monkeypatch.setenv("PURIDIVER_DATA", str(tmp_path_factory.getbasetemp() / "grid-data"))

"""Joint networks of a grid: trained once, and only where a cell measures diversity."""

from __future__ import annotations

import pytest

from puridiver.config import RunConfig
from puridiver.grid.cells import Cell, Column, Method
from puridiver.grid.plan import Planned, Sources, plan
from puridiver.grid.prepare import prepare_diversity

pytestmark = pytest.mark.usefixtures("quick_diversity")


def planned(tmp_path, *settings: dict) -> list[Planned]:
    root = {"data_root": str(tmp_path), "device": "cpu"}
    configs = [RunConfig(**{**root, "seed": n, **setting}) for n, setting in enumerate(settings)]
    method = Method("PuriDivER", "puridiver", "puridiver")
    column = Column("digits", "blurry-10", "sym-40", (0,), {})
    return plan([Cell(f"cell-{c.seed}", method, column, c) for c in configs], Sources())


def test_cells_with_the_same_network_share_one_training(tmp_path):
    told: list[str] = []
    waiting = planned(tmp_path, {"diversity": True}, {"diversity": True, "sampler": "rsv"}, {"diversity": False})
    assert prepare_diversity(waiting, Sources(), told.append) == 1
    assert told == ["joint network for diversity, epoch 1/1"]
    assert prepare_diversity(waiting, Sources(), told.append) == 1
    assert len(told) == 1  # the second time from the cache


def test_nothing_is_trained_where_no_cell_measures_diversity(tmp_path):
    told: list[str] = []
    assert prepare_diversity(planned(tmp_path, {"diversity": False}), Sources(), told.append) == 0
    assert not told

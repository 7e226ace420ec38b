"""Joint networks of a grid: trained once, and only where a cell measures diversity."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from puridiver import plugins
from puridiver.grid.cells import Cell, Column, Method
from puridiver.grid.plan import Planned, Sources, plan
from puridiver.grid.prepare import prepare_diversity
from puridiver.runs.config import RunConfig
from tests.metrics.test_joint import Wide

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


@pytest.mark.usefixtures("forgotten_plugins")
def test_a_network_is_trained_for_each_of_its_own_settings(tmp_path):
    plugins.as_name(Wide)
    common = {"diversity": True, "network": "wide"}
    widths = [{**common, "options": {"wide.width": width}} for width in (3, 4, 3)]
    assert prepare_diversity(planned(tmp_path, *widths), Sources(), lambda text: None) == 2
    others = [{"diversity": True, "trainer": "gce", "options": {"gce.q": q}} for q in (0.3, 0.4)]
    assert prepare_diversity(planned(tmp_path, *others), Sources(), lambda text: None) == 1


def test_nothing_is_trained_where_no_cell_measures_diversity(tmp_path):
    told: list[str] = []
    assert prepare_diversity(planned(tmp_path, {"diversity": False}), Sources(), told.append) == 0
    assert not told


def test_what_goes_wrong_is_left_to_the_cells(tmp_path, monkeypatch, caplog):
    def broken(*arguments: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("puridiver.runs.experiment.joint_features", broken)
    assert prepare_diversity(planned(tmp_path, {"diversity": True}), Sources(), print) == 1
    assert "no space left" in caplog.text


def test_the_number_of_threads_does_not_change_the_features(tmp_path):
    waiting = planned(tmp_path, {"diversity": True})
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            other = [dataclasses.replace(p, cell=in_folder(p.cell, tmp_path / str(threads))) for p in waiting]
            prepare_diversity(other, Sources(), lambda text: None)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    first, second = (next((tmp_path / t / "joint-features").glob("*/state-*.safetensors")) for t in "12")
    assert first.name == second.name  # named by its content


def in_folder(cell: Cell, folder: Path) -> Cell:
    return dataclasses.replace(cell, config=dataclasses.replace(cell.config, data_root=str(folder)))


def test_a_grid_prepares_before_its_cells_start(tmp_path, monkeypatch):
    from puridiver.cli import main

    grid = tmp_path / "mine.toml"
    grid.write_text('[grid]\nmethods = ["rsv+plain"]\nseeds = [1, 2]\nepochs = 1\nstream_limit = 16\ntest_limit = 20\n')
    asked: list[int] = []
    monkeypatch.setattr("puridiver.grid.campaign.prepare_diversity", lambda waiting, *rest: asked.append(len(waiting)))
    assert (
        main(
            [
                "grid",
                str(grid),
                "--out",
                str(tmp_path / "out"),
                "--quiet",
                "--device",
                "cpu",
                "--engine",
                "lanes",
                "--lanes",
                "1",
            ]
        )
        == 0
    )
    assert asked == [2]

"""The folder of a run: known by its config.json; what others put there is never touched, and damage is named."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from puridiver.errors import DataError
from puridiver.runs import folder as runs
from tests.runs.samples import contents, experiment, tiny_config

NAMES = (runs.CONFIG, runs.SUMMARY, runs.METRICS, runs.MANIFEST, runs.MEMORY, runs.LEARNER, runs.CHECKPOINT)


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> Path:
    """A finished run. Tests must not change it."""
    folder = tmp_path_factory.mktemp("done") / "run"
    experiment(tiny_config(epochs=1)).run(folder, keep_learner=True)
    return folder


# What others put there ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["{}", '{"format": "other"}', "[1]", "{", "[" * 100_000])
def test_a_config_of_others_is_no_run_whatever_is_said(text, tmp_path):
    (tmp_path / runs.CONFIG).write_text(text)
    before = contents(tmp_path)
    for said in ({"force": True}, {"resume": True}, {}):
        with pytest.raises(DataError, match=r"config\.json"):
            runs.check_free(tmp_path, **said)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", NAMES[1:])
def test_files_of_a_runs_names_without_a_run_are_not_replaced(name, tmp_path):
    (tmp_path / name).write_text("mine")
    (tmp_path / ".lock").touch()
    for force in (False, True):
        with pytest.raises(DataError, match=f"no run wrote: {name}"):
            runs.check_free(tmp_path, force)


def test_other_files_beside_a_run_stay_and_links_are_not_written_through_when_it_is_replaced(done, tmp_path):
    folder = shutil.copytree(done, tmp_path / "run")
    others = {
        ".audit.lock": "", "notes.txt": "mine", "plugins/mine.py": "x", "learner/mine.txt": "y", "checkpoint/mine": "z",
    }  # fmt: skip
    for name, text in others.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (tmp_path / "precious").write_text("mine")
    for name in (runs.SUMMARY, runs.METRICS, runs.MANIFEST):
        (folder / name).unlink()
        (folder / name).symlink_to(tmp_path / "precious")
    experiment(tiny_config(epochs=1, seed=1)).run(folder, force=True)
    assert json.loads((folder / runs.SUMMARY).read_text())["seed"] == 1
    assert {name: (folder / name).read_text() for name in others} == others
    assert sorted(os.listdir(folder / "learner")) == ["mine.txt"]  # the old learner is gone
    assert (tmp_path / "precious").read_text() == "mine"
    assert not any(path.is_symlink() for path in folder.iterdir())


def test_a_file_or_a_grid_in_the_way_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "grid" / runs.GRID_CELLS).mkdir(parents=True)
    for name, message in (("file", "is a file"), ("grid", "folder of a grid")):
        with pytest.raises(DataError, match=message):
            runs.check_free(tmp_path / name)
        with pytest.raises(DataError, match=message):
            runs.check_no_run(tmp_path / name)


# Damage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", None), ("plugins", "all"), ("config", [1]), ("config", {"seed": 10**400}), ("config", {"sede": 1}),
        ("resolved", None), ("commit", 3),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_wrong_types_in_a_config_are_named_with_file_and_field(field, value, done, tmp_path):
    config = json.loads((done / runs.CONFIG).read_text())
    (tmp_path / runs.CONFIG).write_text(json.dumps({**config, field: value}))
    with pytest.raises(DataError, match=rf"config\.json is damaged: {field}"):
        runs.RunFolder(tmp_path).begun()


def test_what_a_killed_write_left_is_cleared_away_and_nothing_else(tmp_path):
    for name in (".config.json.12-34.tmp", ".other.12-34.tmp", ".config.json.tmp"):
        (tmp_path / name).write_text("{")
    with runs.RunFolder(tmp_path).held():
        pass
    assert sorted(os.listdir(tmp_path)) == [".config.json.tmp", ".other.12-34.tmp"]

"""Methods from outside the package: registered, loaded, recorded, and set by options of their own."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import puridiver
from puridiver import data, plugins
from puridiver.cli import main
from puridiver.errors import DataError
from puridiver.memory import SAMPLERS
from puridiver.options import declared
from puridiver.runs.config import RunConfig
from puridiver.runs.resolve import resolve, run_id

NEWEST = """
import puridiver, torch

@puridiver.register
class Newest(puridiver.Sampler):
    '''Keeps the last samples.'''
    name = "newest"
    title = "The newest"
    own_options = {"newest_skip": puridiver.Option(0, "rows to skip", low=0)}
    def choose(self, pool, n_old, capacity, moment):
        return torch.arange(self.options.newest_skip, len(pool))[-capacity:]
"""
QUICK = ["--stream-limit", "20", "--test-limit", "50", "--epochs", "1", "--quiet", "--no-diversity"]
IMAGES, LABELS = np.zeros((9, 8, 8, 1), np.uint8), list("abcabcabc")

pytestmark = pytest.mark.usefixtures("forgotten_plugins")


def test_titles_tell_methods_apart():
    for _, members in plugins.FAMILIES.values():
        assert len({kind.title for kind in members.values()}) == len(members)
    assert plugins.title_of("puridiver", "puridiver") == "PuriDivER"


def newest(folder: Path, name: str = "newest.py", **changes: str) -> Path:
    """A plugin's file, with words of it changed."""
    text = NEWEST
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


class Oldest(puridiver.Sampler):
    """Keeps the first samples."""

    name = "oldest"

    def choose(self, pool: Any, n_old: int, capacity: int, moment: Any) -> torch.Tensor:
        return torch.arange(min(len(pool), capacity))


# Registering and loading -------------------------------------------------------------------------------------------


def test_a_learner_takes_a_class_and_needs_it_again_to_load(tmp_path: Path) -> None:
    learner = puridiver.Learner(input_shape=(8, 8, 1), sampler=Oldest, trainer="plain", memory=5, seed=1)
    learner.observe(IMAGES, LABELS)
    assert learner.memory.samples.arrivals.tolist() == [0, 1, 2, 3, 4]
    assert (Oldest.title, Oldest.summary) == ("oldest", "Keeps the first samples.")
    assert puridiver.Learner.load(learner.save(tmp_path / "saved")).sampler.name == "oldest"
    del SAMPLERS["oldest"]
    with pytest.raises(DataError, match="needs its plugin"):
        puridiver.Learner.load(tmp_path / "saved")


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('"newest"', '"rsv"', "taken by a sampler of the package"),
        ('"newest"', '"New est"', "lower-case letters"),
        ("choose", "chose", "should have choose"),
        ("puridiver.Sampler", "object", "should be a subclass"),
        ("newest_skip", "lr", "'lr' is taken by every method"),
        ("@puridiver.register", "", "registers no sampler"),
        ("import puridiver, torch", "import nothing_there", "ModuleNotFoundError"),
        ("import puridiver, torch", "raise SystemExit(3)", "SystemExit"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_an_error_with_a_reason(
    old: str, new: str, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--plugin", str(newest(tmp_path, **{old: new})), *QUICK]) != 0
    assert error in " ".join(capsys.readouterr().err.split())


def test_two_files_cannot_share_a_name(tmp_path: Path) -> None:
    plugins.add(str(newest(tmp_path)))
    with pytest.raises(DataError, match=r"'newest' is taken by a sampler of .*newest.py"):
        plugins.add(str(newest(tmp_path, "other.py")))


def test_a_notebook_cell_may_register_its_class_again() -> None:
    first, second = (
        type("Cell", (Oldest,), {"name": "cell", "own_options": {option: puridiver.Option(3)}, "__module__": "cells"})
        for option in ("cell_first", "cell_second")
    )
    puridiver.register(first)
    puridiver.register(second)
    assert SAMPLERS["cell"] is second
    assert {name for name in declared() if name.startswith("cell_")} == {"cell_second"}


def test_the_environment_variable_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is how worker processes find plugins."""
    monkeypatch.setenv(plugins.ENVIRONMENT, str(newest(tmp_path)))
    assert puridiver.Learner(sampler="newest", input_shape=(8, 8, 1)).sampler.name == "newest"
    monkeypatch.setenv(plugins.ENVIRONMENT, "nowhere.py")
    with pytest.raises(DataError, match=r"nowhere.py .*No such file"):
        plugins.load_all()
    plugins.add(str(newest(tmp_path)))
    assert os.environ[plugins.ENVIRONMENT].split(os.pathsep)[-1] == str(tmp_path / "newest.py")


# Options -----------------------------------------------------------------------------------------------------------


def test_options_of_a_plugin_are_set_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--plugin", str(newest(tmp_path)), "--sampler", "newest", "--trainer", "plain", "--json", *QUICK]
    assert main([*words, "--set", "newest_skip=2", "--out", str(tmp_path / "run")]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["options"]["newest_skip"] == 2
    assert (row["method"], row["title"]) == ("newest + plain", "The newest + cross-entropy")
    assert "--set newest_skip=2 --plugin newest.py" in row["command"]
    assert set(row["plugins"]) == {"sampler newest"}
    assert NEWEST in json.loads((tmp_path / "run" / "config.json").read_text())["plugins"].values()
    assert main([*words, "--set", "newest_skip=-1"]) == 2


# Code --------------------------------------------------------------------------------------------------------------


def test_other_code_is_another_run_and_is_told_of_when_a_learner_is_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ids, source = list[dict[str, str]](), data.load("digits")
    for changes in ({}, {"capacity": "capacity "}):
        plugins._loaded.clear()
        plugins.add(str(newest(tmp_path, **changes)))
        configs = {name: RunConfig(sampler=name) for name in ("newest", "rsv")}
        ids.append({name: run_id(config, resolve(config, source), "stream") for name, config in configs.items()})
        if not changes:
            puridiver.Learner(3, (8, 8, 1), 5, sampler="newest", trainer="plain").save(tmp_path / "saved")
            puridiver.Learner.load(tmp_path / "saved")
            assert "another version" not in caplog.text
    assert [name for name in ids[0] if ids[0][name] != ids[1][name]] == ["newest"]
    puridiver.Learner.load(tmp_path / "saved")
    assert "another version of sampler newest" in caplog.text


@pytest.mark.parametrize("edited", ["helper.py", "weights.pt"])
def test_a_whole_package_and_the_files_that_a_class_names_are_hashed(
    edited: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest(tmp_path / "own_package", **{'name = "newest"': 'name = "newest"\n    files = ["weights.pt"]'})
    for name in ("__init__.py", "helper.py"):
        (tmp_path / "own_package" / name).write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_package", raising=False)
    monkeypatch.delitem(sys.modules, "own_package.newest", raising=False)
    with pytest.raises(DataError, match=r"weights.pt"):
        plugins.load("own_package.newest")
    (tmp_path / "own_package" / "weights.pt").write_text("one")
    plugins.load("own_package.newest")
    before = plugins.origins(("sampler", "newest"))["sampler newest"]
    assert before.place == "own_package.newest"
    (tmp_path / "own_package" / edited).write_text("two")
    assert plugins._origin(SAMPLERS["newest"]).code != before.code

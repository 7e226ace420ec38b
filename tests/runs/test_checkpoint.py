"""Checkpoints that are damaged, cut, foreign, missing or cannot be written."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from puridiver.errors import DataError
from puridiver.learner import storage
from puridiver.runs import folder as runs
from puridiver.runs.checkpoint import Checkpoints, remove_save
from tests.learner_samples import differing, tensors_of
from tests.runs.samples import Leaving, contents, experiment, finish, finished, leg, tiny_config, traces


def save(checkpoints: Checkpoints, number: int) -> bool:
    checkpoints.begin_save({"number": number}, {"weights": torch.full((3,), float(number))})
    checkpoints.wait()
    return not checkpoints._failing


def saved(folder: Path, times: int = 3, run: str = "this") -> Checkpoints:
    checkpoints = Checkpoints(folder, run, 60)
    for number in range(1, times + 1):
        assert save(checkpoints, number)
    return checkpoints


def loaded_number(folder: Path, run: str = "this") -> int | None:
    found = Checkpoints(folder, run, 60).load()
    if found is None:
        return None
    settings, tensors = found
    assert tensors["weights"].tolist() == [settings["number"]] * 3
    return settings["number"]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def tensor_file(folder: Path) -> Path:
    (found,) = folder.glob("*.safetensors")
    return found


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "cut tensors": lambda folder: cut(tensor_file(folder)),
    "flipped bit in the tensors": lambda folder: flip(tensor_file(folder)),
    "no tensors": lambda folder: tensor_file(folder).unlink(),
    "cut index": lambda folder: cut(folder / storage.INDEX),
    "empty index": lambda folder: (folder / storage.INDEX).write_bytes(b""),
    "deep index": lambda folder: (folder / storage.INDEX).write_bytes(b"[" * 100_000),
    "huge number": lambda folder: (folder / storage.INDEX).write_bytes(b'{"format": ' + b"9" * 5000 + b"}"),
    "other run": lambda folder: storage.save(folder, {"run": "another", "number": 9}, {}),
}


def test_nothing_is_loaded_where_nothing_was_saved(tmp_path):
    assert loaded_number(tmp_path / "nowhere") is None
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "000001").mkdir()
    assert loaded_number(tmp_path) is None  # killed amid its first save


def test_the_newest_two_are_kept_the_newest_is_used_and_other_names_are_left_alone(tmp_path):
    (tmp_path / "000002.bak").mkdir()
    (tmp_path / "000009").write_text("a file")
    checkpoints = saved(tmp_path, 5)
    assert sorted(os.listdir(tmp_path)) == ["000002.bak", "000004", "000005", "000009"]
    assert loaded_number(tmp_path) == 5
    checkpoints.remove()
    assert sorted(os.listdir(tmp_path)) == ["000002.bak", "000009"]


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_bad_newest_one_is_passed_over_and_the_one_before_is_used_and_kept(damage, tmp_path, caplog):
    saved(tmp_path)
    damage(tmp_path / "000003")
    before = contents(tmp_path)
    going_on = Checkpoints(tmp_path, "this", 60)
    found = going_on.load()
    assert found is not None
    assert found[0]["number"] == 2
    assert len(caplog.records) == 1
    assert "000003" in caplog.text
    assert contents(tmp_path) == before  # as long as the run does not go on
    save(going_on, 4)
    assert sorted(os.listdir(tmp_path)) == ["000002", "000004"]
    save(going_on, 5)
    assert sorted(os.listdir(tmp_path)) == ["000004", "000005"]


def test_where_both_are_bad_an_error_names_both_and_nothing_changes(tmp_path):
    saved(tmp_path)
    for name, damage in (("000002", "cut tensors"), ("000003", "other run")):
        DAMAGES[damage](tmp_path / name)
    before = contents(tmp_path)
    with pytest.raises(DataError, match=r"no checkpoint to go on from: .*000003.*000002.*--force"):
        loaded_number(tmp_path)
    assert contents(tmp_path) == before


def test_a_save_that_did_not_come_to_its_end_is_no_damage(tmp_path, caplog):
    saved(tmp_path)
    (tmp_path / "000004").mkdir()
    (tmp_path / "000004" / ".state.json.1-1.tmp").write_text("{")
    assert loaded_number(tmp_path) == 3
    assert caplog.records == []
    save(Checkpoints(tmp_path, "this", 60), 7)
    assert sorted(os.listdir(tmp_path)) == ["000003", "000004"]
    assert loaded_number(tmp_path) == 7


def test_removing_a_save_leaves_files_of_others_and_follows_no_link(tmp_path):
    storage.save(tmp_path / "learner", {}, {"a": torch.zeros(1)})
    (tmp_path / "link").symlink_to("learner")
    remove_save(tmp_path / "link")
    assert storage.load(tmp_path / "learner")
    (tmp_path / "learner" / "mine.txt").write_text("precious")
    remove_save(tmp_path / "learner")
    assert sorted(os.listdir(tmp_path / "learner")) == ["mine.txt"]


def test_a_checkpoint_is_due_when_its_time_has_come(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("puridiver.runs.checkpoint.time.monotonic", lambda: now[0])
    by_time, never = Checkpoints(tmp_path, "this", 60), Checkpoints(tmp_path, "this", 0)
    now[0] += 59
    assert not by_time.due()
    now[0] += 1
    assert by_time.due()
    assert not never.due()
    save(by_time, 1)
    assert not by_time.due()


# While the caller goes on ------------------------------------------------------------------------------------------


def test_what_is_written_is_the_state_at_the_call_whatever_changes_meanwhile(tmp_path, monkeypatch):
    go_on, write = threading.Event(), storage.write
    monkeypatch.setattr(storage, "write", lambda *state: write(*state) if go_on.wait(30) else None)
    checkpoints, settings, weights = Checkpoints(tmp_path, "this", 60), {"number": 1, "curve": [0.5]}, torch.ones(3)
    checkpoints.begin_save(settings, {"weights": weights, "again": weights})
    assert not (tmp_path / "000001").exists()  # the caller has gone on
    weights.add_(1)
    settings["curve"].append(0.7)
    go_on.set()
    checkpoints.wait()
    found, tensors = Checkpoints(tmp_path, "this", 60).load()
    assert found == {"number": 1, "curve": [0.5]}
    assert {name: value.tolist() for name, value in tensors.items()} == {"weights": [1.0] * 3, "again": [1.0] * 3}


def test_an_error_that_is_no_full_disk_is_not_swallowed(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "write", lambda folder, frozen: 1 / 0)
    checkpoints = Checkpoints(tmp_path, "this", 60)
    checkpoints.begin_save({}, {})
    with pytest.raises(ZeroDivisionError):
        checkpoints.wait()


def test_a_run_that_fails_leaves_its_last_checkpoint_whole(tmp_path):
    """It breaks off at once after a phase, while the checkpoint of the phase's end may still be written."""
    broken = experiment(tiny_config())

    def fail(event: dict[str, Any]) -> None:
        if event["event"] == "task":
            raise RuntimeError("something broke")

    broken.listeners.append(fail)
    with pytest.raises(RuntimeError, match="something broke"):
        broken.run(tmp_path / "run")
    assert storage.load(tmp_path / "run" / runs.CHECKPOINT / "000002")[0]["position"][0] == 2


# A disk that is full -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("writes", [0, 1], ids=["tensors", "index"])
@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_on_a_full_disk_the_older_checkpoints_stay_good(name, writes, tmp_path, monkeypatch, caplog):
    checkpoints = saved(tmp_path)
    before = contents(tmp_path)
    left, original = [writes], getattr(os, name)

    def failing(*args: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device", str(args[0]))
        return original(*args)

    with monkeypatch.context() as patch:
        patch.setattr(os, name, failing)
        for _ in range(3):
            assert not save(checkpoints, 9)
    assert len(caplog.records) == 1
    assert "No space left" in caplog.text
    assert contents(tmp_path) == before
    assert loaded_number(tmp_path) == 3
    assert save(checkpoints, 9)
    assert loaded_number(tmp_path) == 9


# In a run ----------------------------------------------------------------------------------------------------------


def test_a_run_with_a_bad_newest_checkpoint_ends_in_the_same_bits(tmp_path):
    expected, weights = finished(tiny_config(), tmp_path / "whole")
    folder = tmp_path / "run"
    leg(tiny_config(), folder, Leaving(5))
    cut(tensor_file(sorted((folder / runs.CHECKPOINT).iterdir())[-1]))
    last = finish(tiny_config(), folder)
    assert differing(weights, tensors_of(last.learner)) == []
    assert traces(folder) == expected

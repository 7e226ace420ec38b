"""Checkpoint that are damaged, cut, foreign, missing or cannot be written."""

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
from puridiver.runs.checkpoint import Checkpoint, remove_save
from tests.runs.samples import contents


def save(checkpoint: Checkpoint, number: int) -> None:
    checkpoint.begin_save({"value": number}, {"weights": torch.full((3,), float(number))})
    checkpoint.wait()


def saved(folder: Path) -> Checkpoint:
    checkpoint = Checkpoint(folder, "this", 60)
    for number in (1, 2, 3):
        save(checkpoint, number)
    return checkpoint


def loaded(checkpoint: Checkpoint) -> int | None:
    found = checkpoint.load()
    if found is None:
        return None
    settings, tensors = found
    assert tensors["weights"].tolist() == [settings["value"]] * 3
    return settings["value"]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "flipped bit": lambda folder: flip(folder / storage.FILE),
    "empty file": lambda folder: (folder / storage.FILE).write_bytes(b""),
    "other run": lambda folder: storage.save(folder, {"run": "another"}, {}),
}


def test_the_newest_is_used_and_what_others_put_there_stays(tmp_path):
    assert loaded(Checkpoint(tmp_path / "nowhere", "this")) is None
    assert loaded(Checkpoint(tmp_path, "this")) is None  # killed amid its first save
    (tmp_path / "mine").write_text("")
    assert loaded(saved(tmp_path)) == loaded(Checkpoint(tmp_path, "this")) == 3
    Checkpoint(tmp_path).remove()
    assert os.listdir(tmp_path) == ["mine"]


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_bad_one_is_named_and_nothing_changes(damage, tmp_path):
    saved(tmp_path)
    damage(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(DataError, match=rf"no checkpoint to go on from: .*{tmp_path}.*--force"):
        Checkpoint(tmp_path, "this").load()
    assert contents(tmp_path) == before


def test_removing_a_save_leaves_files_of_others_and_follows_no_link(tmp_path):
    storage.save(tmp_path / "learner", {}, {"weights": torch.ones(1)})
    (tmp_path / "link").symlink_to("learner")
    remove_save(tmp_path / "link")
    assert storage.load(tmp_path / "learner")
    (tmp_path / "learner" / "mine.txt").write_text("precious")
    remove_save(tmp_path / "learner")
    assert sorted(os.listdir(tmp_path / "learner")) == ["mine.txt"]


def test_a_checkpoint_is_due_when_its_time_has_come(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("puridiver.runs.checkpoint.time.monotonic", lambda: now[0])
    by_time, never = Checkpoint(tmp_path, "this", 60), Checkpoint(tmp_path, "this", 0)
    now[0] += 59
    assert not by_time.due()
    now[0] += 1
    assert by_time.due()
    assert not never.due()
    save(by_time, 1)
    assert not by_time.due()
    with pytest.raises(ValueError, match="seconds between checkpoints should be at least 0"):
        Checkpoint(tmp_path, "this", float("nan"))


def test_what_is_written_is_the_state_at_the_call_whatever_changes_meanwhile(tmp_path, monkeypatch):
    go_on, write = threading.Event(), storage.write
    monkeypatch.setattr(storage, "write", lambda *state: write(*state) if go_on.wait(30) else None)
    checkpoint, settings, weights = Checkpoint(tmp_path, "this", 60), {"curve": [0.5]}, torch.ones(3)
    checkpoint.begin_save(settings, {"weights": weights})
    assert not (tmp_path / storage.FILE).exists()  # the caller has gone on
    weights.add_(1)
    settings["curve"].append(0.7)
    go_on.set()
    checkpoint.wait()
    found, tensors = Checkpoint(tmp_path, "this", 60).load()
    assert (found, tensors["weights"].tolist()) == ({"curve": [0.5]}, [1.0] * 3)


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_on_a_full_disk_the_older_checkpoint_stays_good(name, tmp_path, monkeypatch, caplog):
    checkpoint = saved(tmp_path)

    def failing(*args: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device", str(args[0]))

    with monkeypatch.context() as patch:
        patch.setattr(os, name, failing)
        for _ in range(3):
            save(checkpoint, 9)
    assert len(caplog.records) == 1
    assert "No space left" in caplog.text
    assert loaded(Checkpoint(tmp_path, "this")) == 3
    save(checkpoint, 9)
    assert loaded(Checkpoint(tmp_path, "this")) == 9

"""Checkpoints that are damaged, cut, foreign, missing or cannot be written."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from puridiver.errors import DataError
from puridiver.learner import storage
from puridiver.runs import folder as runs
from puridiver.runs.checkpoint import Checkpoints
from tests.learner_samples import differing, tensors_of
from tests.resume_samples import finished, tiny_config, traces
from tests.test_resume import Leaving, experiment, finish, leg


def saved(folder: Path, times: int = 3, run: str = "this") -> Checkpoints:
    checkpoints = Checkpoints(folder, run, 60)
    for number in range(1, times + 1):
        assert checkpoints.save({"number": number}, {"weights": torch.full((3,), float(number))})
    return checkpoints


def loaded_number(folder: Path, run: str = "this") -> int | None:
    found = Checkpoints(folder, run, 60).load()
    if found is None:
        return None
    settings, tensors = found
    assert tensors["weights"].tolist() == [settings["number"]] * 3
    return settings["number"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def tensor_file(folder: Path) -> Path:
    (found,) = folder.glob("*.safetensors")
    return found


def of_another_format(folder: Path) -> None:
    index = folder / storage.INDEX
    index.write_text(index.read_text().replace('"format": 1', '"format": 99'))


def replaced_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "cut tensors": lambda folder: cut(tensor_file(folder)),
    "flipped bit in the tensors": lambda folder: flip(tensor_file(folder)),
    "no tensors": lambda folder: tensor_file(folder).unlink(),
    "unreadable tensors": lambda folder: replaced_by_a_folder(tensor_file(folder)),
    "cut index": lambda folder: cut(folder / storage.INDEX),
    "empty index": lambda folder: (folder / storage.INDEX).write_bytes(b""),
    "other format": of_another_format,
    "other run": lambda folder: storage.save(folder, {"run": "another", "number": 9}, {}),
}


def test_names_that_are_not_checkpoints_are_in_nobodys_way(tmp_path):
    (tmp_path / "damaged-000002.bak").mkdir()
    (tmp_path / "000009").write_text("a file")
    assert saved(tmp_path).save({"number": 4}, {"weights": torch.full((3,), 4.0)})
    assert loaded_number(tmp_path) == 4
    saved(tmp_path).remove()
    assert names(tmp_path) == ["000009", "damaged-000002.bak"]


def test_nothing_is_loaded_where_nothing_was_saved(tmp_path):
    assert loaded_number(tmp_path / "nowhere") is None
    assert not (tmp_path / "nowhere").exists()


def test_the_newest_two_are_kept_and_the_newest_is_used(tmp_path):
    saved(tmp_path, 5)
    assert names(tmp_path) == ["000004", "000005"]
    assert loaded_number(tmp_path) == 5


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_bad_newest_one_is_left_as_it_is_and_the_one_before_is_used(damage, tmp_path, caplog):
    saved(tmp_path)
    damage(tmp_path / "000003")
    before = contents(tmp_path)
    assert loaded_number(tmp_path) == 2
    assert len(caplog.records) == 1
    assert "going on from the checkpoint before it" in caplog.text
    assert "000003" in caplog.text
    assert contents(tmp_path) == before


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_bad_one_is_kept_aside_once_the_run_goes_on(damage, tmp_path):
    saved(tmp_path)
    damage(tmp_path / "000003")
    bad = contents(tmp_path / "000003")
    going_on = Checkpoints(tmp_path, "this", 60)
    assert going_on.load() is not None
    for number in (3, 4, 5):
        going_on.save({"number": number}, {"weights": torch.full((3,), float(number))})
    assert names(tmp_path) == ["000005", "000006", "damaged-000003"]
    assert contents(tmp_path / "damaged-000003") == bad
    assert loaded_number(tmp_path) == 5
    going_on.remove()
    assert names(tmp_path) == ["damaged-000003"]


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_where_both_are_bad_an_error_names_both_and_nothing_changes(damage, tmp_path):
    saved(tmp_path)
    for name in ("000002", "000003"):
        damage(tmp_path / name)
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
    saved_after = Checkpoints(tmp_path, "this", 60)
    saved_after.save({"number": 7}, {"weights": torch.full((3,), 7.0)})
    assert names(tmp_path) == ["000003", "000004"]
    assert len(contents(tmp_path / "000004")) == 2
    assert loaded_number(tmp_path) == 7


def test_a_first_save_that_did_not_come_to_its_end_is_a_run_without_checkpoint(tmp_path):
    (tmp_path / "000001").mkdir()
    assert loaded_number(tmp_path) is None


def test_checkpoints_that_someone_took_away_are_missed(tmp_path):
    saved(tmp_path)
    (tmp_path / "000004").mkdir()
    for name in ("000002", "000003"):
        shutil.rmtree(tmp_path / name)
    with pytest.raises(DataError, match="the checkpoints before 000004 are missing"):
        loaded_number(tmp_path)


def test_what_a_kill_left_of_an_older_checkpoint_is_cleared_away(tmp_path):
    saved(tmp_path)
    shutil.copytree(tmp_path / "000002", tmp_path / "000001")
    (tmp_path / "000001" / storage.INDEX).unlink()
    assert loaded_number(tmp_path) == 3
    Checkpoints(tmp_path, "this", 60).save({"number": 4}, {})
    assert names(tmp_path) == ["000003", "000004"]


def test_a_checkpoint_is_due_when_its_time_has_come(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("puridiver.runs.checkpoint.time.monotonic", lambda: now[0])
    by_time, never = Checkpoints(tmp_path, "this", 60), Checkpoints(tmp_path, "this", 0)
    now[0] += 59
    assert not by_time.due()
    now[0] += 1
    assert by_time.due()
    assert not never.due()
    by_time.save({}, {})
    assert not by_time.due()


# While the caller goes on ------------------------------------------------------------------------------------------


class SlowDisk:
    """Writes nothing until it is told to go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go_on, self.written, original = threading.Event(), list[str](), storage.write

        def slow(folder: Path, frozen: storage.Frozen) -> Path:
            assert self.go_on.wait(30)
            self.written.append(folder.name)
            return original(folder, frozen)

        monkeypatch.setattr(storage, "write", slow)


def test_what_is_written_is_the_state_at_the_call_whatever_changes_meanwhile(tmp_path, monkeypatch):
    disk, checkpoints = SlowDisk(monkeypatch), Checkpoints(tmp_path, "this", 60)
    settings, weights = {"number": 1, "curve": [0.5]}, torch.ones(3)
    checkpoints.begin_save(settings, {"weights": weights, "again": weights})
    assert not (tmp_path / "000001").exists()  # the caller has gone on
    weights.add_(1)
    settings["curve"].append(0.7)
    disk.go_on.set()
    assert checkpoints.wait()
    found, tensors = Checkpoints(tmp_path, "this", 60).load()
    assert found == {"number": 1, "curve": [0.5]}
    assert {name: value.tolist() for name, value in tensors.items()} == {"weights": [1.0] * 3, "again": [1.0] * 3}


def test_a_checkpoint_waits_for_the_one_before_it(tmp_path, monkeypatch):
    disk, checkpoints = SlowDisk(monkeypatch), Checkpoints(tmp_path, "this", 60)
    checkpoints.begin_save({"number": 1}, {})
    threading.Timer(0.2, disk.go_on.set).start()
    checkpoints.begin_save({"number": 2}, {"weights": torch.full((3,), 2.0)})
    assert disk.written[:1] == ["000001"]
    assert checkpoints.wait()
    assert disk.written == ["000001", "000002"]
    assert loaded_number(tmp_path) == 2


def test_nothing_is_written_any_more_once_the_checkpoints_are_removed(tmp_path, monkeypatch):
    disk, checkpoints = SlowDisk(monkeypatch), Checkpoints(tmp_path / "all", "this", 60)
    checkpoints.begin_save({"number": 1}, {})
    threading.Timer(0.2, disk.go_on.set).start()
    checkpoints.remove()
    assert disk.written == ["000001"]
    assert not (tmp_path / "all").exists()


def test_an_error_that_is_no_full_disk_is_not_swallowed(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "write", lambda folder, frozen: 1 / 0)
    checkpoints = Checkpoints(tmp_path, "this", 60)
    checkpoints.begin_save({}, {})
    with pytest.raises(ZeroDivisionError):
        checkpoints.wait()


def test_a_run_that_fails_leaves_its_last_checkpoint_whole_and_no_thread(tmp_path, monkeypatch):
    """It breaks off at once after a phase, while the checkpoint of the phase's end is being written."""
    broken, written, original = experiment(tiny_config()), list[str](), storage.write
    go_on = threading.Event()

    def slow(folder: Path, frozen: storage.Frozen) -> Path:
        assert folder.name == "000001" or go_on.wait(30)
        written.append(folder.name)
        return original(folder, frozen)

    def fail(event: dict[str, Any]) -> None:
        if event["event"] == "task":
            assert written == ["000001"]  # the second is under way
            threading.Timer(0.2, go_on.set).start()
            raise RuntimeError("something broke")

    monkeypatch.setattr(storage, "write", slow)
    broken.listeners.append(fail)
    with pytest.raises(RuntimeError, match="something broke"):
        broken.run(tmp_path / "run")
    left = [thread for thread in threading.enumerate() if thread.name.startswith("checkpoint")]
    for thread in left:  # one whose work is done may need a moment to end
        thread.join(10)
    assert not any(thread.is_alive() for thread in left)
    assert storage.load(tmp_path / "run" / runs.CHECKPOINT / "000002")[0]["position"]["phase"] == "evaluate"


# A disk that is full -----------------------------------------------------------------------------------------------


class FullDisk:
    """Lets some writes through, then none, until it is emptied."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, writes: int) -> None:
        self.left, self.full, original = writes, True, getattr(os, name)

        def failing(*args: Any) -> Any:
            if self.full and self.left <= 0:
                raise OSError(errno.ENOSPC, "No space left on device", str(args[0]))
            self.left -= 1
            return original(*args)

        monkeypatch.setattr(os, name, failing)


@pytest.mark.parametrize("writes", [0, 1], ids=["tensors", "index"])
@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_on_a_full_disk_the_older_checkpoints_stay_good(name, writes, tmp_path, monkeypatch, caplog):
    checkpoints = saved(tmp_path)
    before = contents(tmp_path)
    disk = FullDisk(monkeypatch, name, writes)
    for _ in range(3):
        assert not checkpoints.save({"number": 9}, {"weights": torch.full((3,), 9.0)})
    assert len(caplog.records) == 1
    assert "no checkpoint could be written, the run goes on without" in caplog.text
    assert "No space left" in caplog.text
    assert contents(tmp_path) == before
    assert loaded_number(tmp_path) == 3
    disk.full = False
    assert checkpoints.save({"number": 9}, {"weights": torch.full((3,), 9.0)})
    assert loaded_number(tmp_path) == 9


def test_a_run_goes_on_when_its_checkpoints_do_not_fit(tmp_path, monkeypatch, caplog):
    expected, _ = finished(tiny_config(), tmp_path / "whole")
    original = storage.write

    def full(folder: Path, *state: Any) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device", str(folder))

    monkeypatch.setattr(storage, "write", full)
    experiment(tiny_config()).run(tmp_path / "run", checkpoint_every=1e-9)
    monkeypatch.setattr(storage, "write", original)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert traces(tmp_path / "run") == expected


# In a run ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", [*list(DAMAGES)[:5], "other run"])
def test_a_run_with_a_bad_newest_checkpoint_ends_in_the_same_bits(damage, tmp_path, caplog):
    expected, weights = finished(tiny_config(), tmp_path / "whole")
    folder = tmp_path / "run"
    leg(tiny_config(), folder, Leaving(5))
    newest = sorted((folder / runs.CHECKPOINT).iterdir())[-1]
    DAMAGES[damage](newest)
    bad = contents(newest)
    last = finish(tiny_config(), folder)
    assert differing(weights, tensors_of(last.learner)) == []
    found = traces(folder)
    assert found.pop("files") == sorted([*expected.pop("files"), runs.CHECKPOINT])
    assert found == expected
    assert contents(folder / runs.CHECKPOINT / f"damaged-{newest.name}") == bad
    assert len(caplog.records) == 1


def test_a_run_without_a_good_checkpoint_is_left_as_it_is(tmp_path):
    leg(tiny_config(), tmp_path, Leaving(5))
    for checkpoint in (tmp_path / runs.CHECKPOINT).iterdir():
        cut(tensor_file(checkpoint))
    before = contents(tmp_path)
    with pytest.raises(DataError, match="nothing was changed; --force starts the run afresh"):
        finish(tiny_config(), tmp_path)
    assert contents(tmp_path) == before


def test_checkpoints_of_another_run_are_refused(tmp_path):
    """Copied there by someone: whole, but not what this run was."""
    leg(tiny_config(seed=3), tmp_path / "other", Leaving(5))
    leg(tiny_config(), tmp_path / "run", Leaving(5))
    shutil.rmtree(tmp_path / "run" / runs.CHECKPOINT)
    shutil.copytree(tmp_path / "other" / runs.CHECKPOINT, tmp_path / "run" / runs.CHECKPOINT)
    with pytest.raises(DataError, match="belongs to another run"):
        finish(tiny_config(), tmp_path / "run")


def test_a_whole_checkpoint_of_another_version_is_named(tmp_path):
    leg(tiny_config(), tmp_path, Leaving(5))
    for checkpoint in (tmp_path / runs.CHECKPOINT).iterdir():
        settings, tensors = storage.load(checkpoint)
        del settings["recorder"]
        storage.save(checkpoint, settings, tensors)
    before = contents(tmp_path)
    with pytest.raises(DataError, match="not hold a whole run of this version: 'recorder'"):
        finish(tiny_config(), tmp_path)
    assert contents(tmp_path) == before

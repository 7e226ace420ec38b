"""Nothing acknowledged is lost: every way through a crash or a rollback comes to the same bits."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from puridiver.errors import DataError
from puridiver.files import write_atomically
from puridiver.service.engine import Engine
from puridiver.service.intake import Policy
from puridiver.service.snapshots import Snapshots, has_snapshot
from tests.learner_samples import differing, tensors_of
from tests.service.conftest import IMAGES, LABELS, POLICY, Open, batches, crash, fill, full, send, tiny


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tensor]:
    """The state of a service that never crashed."""
    engine = Engine(tmp_path_factory.mktemp("whole"), tiny, POLICY, "cpu")
    engine.start()
    fill(engine)
    assert engine.drain(60)
    engine.close()
    return tensors_of(engine.learner)


def test_after_a_crash_anywhere_it_comes_to_the_same_bits(
    tmp_path: Path, engine_in: Open, whole: dict[str, Tensor]
) -> None:
    asleep = engine_in(tmp_path / "asleep", start=False)  # a crash before anything was applied
    fill(asleep)
    left = [crash(asleep, tmp_path / "left 0")]
    often = Policy(every=48, epochs=3, checkpoint_seconds=0)  # a snapshot after every record and every epoch
    busy = engine_in(tmp_path / "busy", often, start=False)
    real, seen = busy.snapshots.write, []

    def write_and_crash(*args: Any) -> int:
        size, now = real(*args), busy.learner.consolidating.begun
        if now is not None or busy.done.seq in (3, 12):
            seen.append(now)
            left.append(crash(busy, tmp_path / f"left {len(left)}"))
        return size

    busy.snapshots.write = write_and_crash  # type: ignore[method-assign]
    fill(busy)
    busy.start()
    assert busy.drain(60)
    assert sum(each is not None for each in seen) >= 3  # amid consolidations
    assert not differing(tensors_of(busy.learner), whole)
    for folder in left:
        again = engine_in(folder)
        assert again.drain(60)
        assert not differing(tensors_of(again.learner), whole), folder
        assert again.learner.consolidations == 1


def test_it_stops_amid_a_consolidation_and_goes_on_there(tmp_path: Path, engine_in: Open) -> None:
    stopped, whole = engine_in(tmp_path / "stopped", start=False), engine_in(tmp_path / "whole")
    for engine in (stopped, whole):
        fill(engine, 3)
        engine.consolidate(63, None)
        fill(engine, 5, first=3)
    stopped.start()
    while stopped.learner.consolidating.begun is None:
        threading.Event().wait(0.001)
    stopped.close()
    assert stopped.snapshots.names()[-1] > "000000000006-000000"
    assert "000000000006-000000" not in stopped.snapshots.names()
    again = engine_in(tmp_path / "stopped")
    assert again.drain(60)
    assert whole.drain(60)
    assert not differing(tensors_of(again.learner), tensors_of(whole.learner))


def test_what_was_sent_before_a_crash_can_be_sent_again(
    tmp_path: Path, engine_in: Open, whole: dict[str, Tensor]
) -> None:
    before = engine_in(tmp_path / "before", start=False)
    fill(before, 6)
    again = engine_in(crash(before, tmp_path / "after"))
    ids = [f"0-{k}" for k in range(8)]
    assert again.observe(IMAGES, LABELS, ids, "batch 0") == {"seq": 1, "first": 0, "count": 8}
    with pytest.raises(ValueError, match="'batch 0' belongs to another request"):
        send(again, "batch 0")
    fill(again)
    assert again.drain(60)
    assert not differing(tensors_of(again.learner), whole)
    again.close()
    reopened = engine_in(again.folder)  # the log is covered: the keys come from the snapshot
    assert reopened.observe(IMAGES, LABELS, ids, "batch 0")["seq"] == 1
    assert reopened.learner.seen == 80


def test_a_damaged_snapshot_gives_way_to_the_one_before(
    tmp_path: Path, engine_in: Open, whole: dict[str, Tensor]
) -> None:
    engine = engine_in(tmp_path / "one")
    fill(engine)
    assert engine.drain(60)
    engine.close()
    newest = engine.snapshots.names()[-1]
    shutil.copytree(tmp_path / "one" / "snapshots" / newest, tmp_path / "one" / "snapshots" / f"damaged-{newest}")
    (tmp_path / "one" / "snapshots" / newest / "state.safetensors").write_bytes(b"damaged")
    again = engine_in(tmp_path / "one")
    assert (tmp_path / "one" / "snapshots" / f"damaged-{newest}+").exists()
    assert again.drain(60)
    assert not differing(tensors_of(again.learner), whole)


def test_a_folder_without_a_whole_snapshot_is_an_error(tmp_path: Path, engine_in: Open) -> None:
    engine_in(tmp_path).close()
    for path in tmp_path.glob("snapshots/*/state.safetensors"):
        path.write_bytes(b"damaged")
    with pytest.raises(DataError, match=r"no snapshot in .* is whole"):
        engine_in(tmp_path)


def test_without_a_first_snapshot_there_is_no_service(
    tmp_path: Path, engine_in: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("puridiver.service.snapshots.write_atomically", full)
        with pytest.raises(OSError, match="No space left"):
            engine_in(tmp_path)
    assert has_snapshot(engine_in(tmp_path).folder)


def test_snapshots_thin_out_and_the_log_stays_short(
    tmp_path: Path, engine_in: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("puridiver.service.log.SEGMENT", 2_000)
    engine = engine_in(tmp_path, Policy(every=0, checkpoint_seconds=0, keep=5))
    fill(engine, 12)
    assert engine.drain(60)
    engine.close()
    names = engine.snapshots.names()
    assert len(names) == 5
    assert names[0] == "000000000000-000000"
    assert has_snapshot(tmp_path)
    assert engine.log.size() < 6_000


def test_snapshots_are_in_order_however_long_a_consolidation_is(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path, 20)
    for epochs in (9_999, 10_000, 100_000):
        note = {"seq": 1, "epochs_done": epochs, "seen": 0, "since": 0, "consolidations": 0, "keys": {}, "figures": {}}
        snapshots.write(tiny(), note)
        assert snapshots.note(snapshots.names()[-1])["epochs_done"] == epochs
    assert not snapshots.listing()


def with_snapshots(engine: Engine, n: int = 4) -> list[str]:
    """Batches, each with a snapshot after it; the names of all."""
    for images, labels in batches(n):
        engine.observe(images, labels, None, None)
        assert engine.drain(60)
        engine.checkpoint()
    return engine.snapshots.names()


def test_it_rolls_back_and_goes_on_and_does_so_again_after_a_crash(tmp_path: Path, engine_in: Open) -> None:
    engine = engine_in(tmp_path / "one")
    fill(engine, 4)
    assert engine.drain(60)
    engine.checkpoint()
    name, then = engine.snapshots.listing()[0]["id"], tensors_of(engine.learner)
    fill(engine, 9, first=4)
    assert engine.drain(60)
    engine.figures["curve"] = [engine.figures["curve"][0] | {"when": 0.0, "samples_seen": seen} for seen in (24, 72)]
    assert engine.restore(name, None)["seen"] == 32
    assert engine.drain(60)
    assert [point["samples_seen"] for point in engine.figures["curve"]] == [24, 32]
    assert not differing(tensors_of(engine.learner), then)
    assert send(engine)["first"] == 32
    left = engine_in(crash(engine, tmp_path / "two"))
    assert engine.drain(60)
    assert left.drain(60)
    assert not differing(tensors_of(left.learner), tensors_of(engine.learner))


def test_a_rollback_logged_while_a_snapshot_is_written_keeps_its_own(
    tmp_path: Path, engine_in: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_in(tmp_path, Policy(every=0, keep=4))
    names, asked, done = with_snapshots(engine, 3), [1, 2], threading.Event()  # one of these snapshots goes next

    def write_and_restore(*args: Any) -> None:
        write_atomically(*args)
        while asked:
            engine.restore(names[asked.pop()], None)
        done.set()

    monkeypatch.setattr("puridiver.service.snapshots.write_atomically", write_and_restore)
    send(engine)
    engine.consolidate(1, None)  # the worker writes a snapshot after it
    assert done.wait(60)
    assert engine.drain(60), engine.failure
    assert (engine.tail.seq, engine.learner.seen) == (7, 8)


def test_a_rollback_whose_snapshot_has_just_gone_is_refused(tmp_path: Path, engine_in: Open) -> None:
    engine = engine_in(tmp_path)
    name, real = with_snapshots(engine, 2)[1], engine.snapshots.load

    def load_and_lose(*args: Any) -> Any:
        learner = real(*args)
        shutil.rmtree(engine.snapshots.folder / name)
        return learner

    engine.snapshots.load = load_and_lose  # type: ignore[method-assign]
    with pytest.raises(KeyError):
        engine.restore(name, None)
    assert engine.tail.seq == 2


def test_an_applied_rollback_can_be_applied_again(tmp_path: Path, engine_in: Open) -> None:
    engine = engine_in(tmp_path, Policy(every=0, keep=4))
    names = with_snapshots(engine, 3)
    for age, name in zip((1000, 999, 998), names, strict=False):  # names[1] leaves the smallest gap
        os.utime(tmp_path / "snapshots" / name / "service.json", (time.time() - age,) * 2)
    engine.restore(names[1], None)
    assert engine.drain(60)
    then = tensors_of(engine.learner)
    engine.close()
    again = engine_in(tmp_path, Policy(every=0, keep=4))
    again.checkpoint()
    again.close()
    (tmp_path / "snapshots" / again.snapshots.names()[-1] / "state.safetensors").write_bytes(b"damaged")
    last = engine_in(tmp_path)
    assert last.drain(60), last.failure
    assert not differing(tensors_of(last.learner), then)


def test_a_repeated_change_gets_its_first_answer_whatever_has_changed_meanwhile(
    tmp_path: Path, engine_in: Open
) -> None:
    engine = engine_in(tmp_path, Policy(every=0, epochs=1))
    name = with_snapshots(engine, 2)[1]
    trained, restored = engine.consolidate(None, "train"), engine.restore(name, "back")
    assert engine.drain(60)
    engine.close()
    shutil.rmtree(engine.snapshots.folder / name)
    again = engine_in(tmp_path, Policy(every=0, epochs=2))
    assert (again.consolidate(None, "train"), again.restore(name, "back")) == (trained, restored)
    with pytest.raises(ValueError, match="'back' belongs to another request"):
        again.restore(again.snapshots.names()[0], "back")


def test_what_was_forgotten_is_gone_once_the_log_and_older_snapshots_are_removed(
    tmp_path: Path, engine_in: Open
) -> None:
    engine = engine_in(tmp_path, Policy(every=0))
    image, rest = batches(1)[0][0][:1], batches(3)[1:]
    engine.observe(image, ["cat"], ["me"], None)
    for images, labels in rest:
        engine.observe(images, labels, None, None)
    engine.checkpoint()
    engine.forget([], ["me"], None)
    assert engine.drain(60)
    engine.close()
    assert _holds(tmp_path, image)
    shutil.rmtree(tmp_path / "log")
    for name in engine.snapshots.names()[:-1]:
        shutil.rmtree(tmp_path / "snapshots" / name)
    again = engine_in(tmp_path)
    assert again.learner.held_ids() == engine.learner.held_ids()
    assert "me" not in again.learner.held_ids().values()
    assert again.observe(*rest[0], None, None)["first"] == 17
    assert again.drain(60)
    assert not _holds(tmp_path, image)


def _holds(folder: Path, image: np.ndarray) -> bool:
    return any(image.tobytes() in path.read_bytes() for path in folder.rglob("*") if path.is_file())

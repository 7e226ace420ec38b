"""The write-ahead log: whole records or none, whatever a crash leaves; and a disk that is full."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from puridiver.errors import DataError
from puridiver.service import log as logs
from puridiver.service.log import Log


@pytest.fixture(autouse=True)
def closed_logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    opened: list[Log] = []
    real = Log._open
    monkeypatch.setattr(Log, "_open", lambda log, first: (opened.append(log), real(log, first))[1])
    yield
    for log in opened:
        log.close()


def filled(folder: Path, n: int = 4) -> Log:
    log = Log(folder)
    for seq in range(1, n + 1):
        log.append([{"seq": seq, "kind": "observe"}], bytes([seq]) * 50)
    return log


def found(folder: Path, after: int = 0) -> list[tuple[int, bytes]]:
    log = Log(folder)
    return [(record["seq"], log.read(place)) for record, place in log.records(after) if record["seq"] > after]


def test_what_was_appended_is_read_back(tmp_path: Path) -> None:
    filled(tmp_path).append([{"seq": 5}, {"seq": 6}], b"both")
    assert found(tmp_path, 3) == [(4, b"\4" * 50), (5, b"both"), (6, b"both")]


def test_a_torn_end_is_cut_off_wherever_it_is_torn(tmp_path: Path) -> None:
    filled(tmp_path / "whole")
    (path,) = (tmp_path / "whole").iterdir()
    content = path.read_bytes()
    size = len(content) // 4
    torn = [content[:end] for end in range(3 * size, len(content))]
    torn += [content[:-9] + bytes(9), content + bytes(40), content + b"PDL1" + bytes(20)]
    for number, left in enumerate(torn):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / path.name).write_bytes(left)
        expected = [1, 2, 3, 4] if len(left) > len(content) else [1, 2, 3]
        assert [seq for seq, _ in found(folder)] == expected
        log = Log(folder)
        assert len(list(log.records(0))) == len(expected)
        log.append([{"seq": len(expected) + 1}], b"new")
        assert found(folder)[-1] == (len(expected) + 1, b"new")


def test_damage_before_acknowledged_records_is_an_error_and_nothing_is_cut(tmp_path: Path) -> None:
    filled(tmp_path)
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="and acknowledged records follow"):
        found(tmp_path)
    assert path.read_bytes() == content


def test_segments_go_once_they_are_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "SEGMENT", 150)
    log = filled(tmp_path, 9)
    before = len(list(tmp_path.iterdir()))
    log.forget_through(5)
    assert len(list(tmp_path.iterdir())) < before
    assert [seq for seq, _ in found(tmp_path, 5)] == [6, 7, 8, 9]
    with pytest.raises(DataError, match="record 1 is missing"):
        found(tmp_path)


@pytest.mark.parametrize("failing", ["fsync", "write"])
def test_a_failed_write_leaves_the_log_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    log = filled(tmp_path)
    before = log.size()
    if failing == "fsync":
        calls = []

        def full(descriptor: int) -> None:
            calls.append(descriptor)
            if len(calls) == 1:
                raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
    else:
        monkeypatch.setattr(log, "reserve", 1 << 60)
    with pytest.raises(OSError, match="No space left"):
        log.append([{"seq": 5}], b"x" * 1000)
    assert log.size() == before
    monkeypatch.undo()
    log.reserve = 0
    log.append([{"seq": 5}], b"again")
    assert found(tmp_path)[-1] == (5, b"again")


def test_a_log_that_cannot_be_set_back_takes_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(tmp_path)

    def broken(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    for _ in range(2):
        with pytest.raises(OSError, match="error"):
            log.append([{"seq": 5}])
    assert "restart the service" in log.broken


def test_a_log_that_ends_before_the_newest_snapshot_goes_on_after_it(tmp_path: Path) -> None:
    filled(tmp_path, 2)
    log = Log(tmp_path)
    list(log.records(5))
    for seq in (6, 7):
        log.append([{"seq": seq}])
    assert [seq for seq, _ in found(tmp_path, 5)] == [6, 7]
    with pytest.raises(DataError, match="record 3 is missing"):
        found(tmp_path, 2)

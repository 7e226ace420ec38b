"""The grid's folder: its lock, and a ledger that no accident can spoil."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from puridiver.errors import DataError
from puridiver.grid.folder import GridFolder
from puridiver.runs import folder as runs
from tests.grid.samples import ledger_of, row

HOLD = """
import sys, time
from pathlib import Path
from puridiver.grid.folder import GridFolder
with GridFolder(Path(sys.argv[1])).locked():
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_told_the_first_ones_pid_and_a_dead_one_does_not_block(tmp_path: Path) -> None:
    folder = GridFolder(tmp_path / "grid")
    command = [sys.executable, "-c", HOLD, str(folder.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        with pytest.raises(DataError, match=f"in use by another grid, process {first.pid}:"), folder.locked():
            pass
        first.kill()
    with folder.locked():
        assert (folder.path / "grid.pid").read_text() == f"{os.getpid()}\n"
    assert not (folder.path / "grid.pid").exists()


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="is a file"), GridFolder(tmp_path / "file").locked():
        pass


def test_a_line_torn_by_a_power_cut_is_dropped_and_the_rest_kept(tmp_path: Path) -> None:
    folder = GridFolder(tmp_path)
    folder.record(row(1))
    with ledger_of(tmp_path).open("a") as file:
        file.write('{"cell": "to')
    with folder.locked():
        assert [found["cell"] for found in folder.rows()] == ["cell-1"]
        folder.record(row(2))
    assert [found["cell"] for found in folder.rows()] == ["cell-1", "cell-2"]


def test_a_last_line_without_its_end_is_kept_if_it_is_whole(tmp_path: Path) -> None:
    """An editor may have saved the ledger so."""
    ledger = ledger_of(tmp_path)
    ledger.write_text(runs.to_json(row(1)))
    with GridFolder(tmp_path).locked():
        GridFolder(tmp_path).record(row(2))
    assert [entry["cell"] for entry in GridFolder(tmp_path).rows()] == ["cell-1", "cell-2"]


@pytest.mark.parametrize("line", ["null", "[]", "3"])
def test_a_line_that_is_no_row_is_named(line: str, tmp_path: Path) -> None:
    ledger_of(tmp_path).write_text(f"{runs.to_json(row(1))}\n{line}\n")
    with pytest.raises(DataError, match="line 2, should be a JSON object; mend or remove"):
        GridFolder(tmp_path).rows()


def test_a_disk_that_fills_within_a_line_leaves_the_ledger_as_it_was(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")  # a limit on the size of files cuts a write as a full disk does
    ledger = ledger_of(tmp_path)
    runs.append_line(ledger, row(1))
    before = ledger.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, limits[1]))
    try:
        with pytest.raises(OSError, match="space"):
            runs.append_line(ledger, row(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert ledger.read_bytes() == before


def test_a_line_that_does_not_reach_the_disk_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    runs.append_line(ledger_of(tmp_path), row(1))
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        runs.append_line(ledger_of(tmp_path), row(2))
    assert json.loads(ledger_of(tmp_path).read_text())["cell"] == "cell-1"

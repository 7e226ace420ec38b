"""Files: replaced whole and never through a link, read only where they are regular, locked between processes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from puridiver import files
from puridiver.errors import BusyError, DataError
from puridiver.files import append_line, file_lock, parse_json, read_json, read_regular, to_json, write_atomically


def test_a_file_is_replaced_whole_and_nothing_temporary_stays(tmp_path):
    for content in (b"old", b"new"):
        write_atomically(tmp_path / "a", content)
        assert (tmp_path / "a").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_failed_write_leaves_the_old_file_and_names_it(tmp_path, monkeypatch):
    write_atomically(tmp_path / "a", b"old")

    def full(*names: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(names[0]))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/a'"):
        write_atomically(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_link_and_a_pipe_are_replaced_and_never_written_through(tmp_path):
    precious = tmp_path / "precious"
    precious.write_bytes(b"mine")
    (tmp_path / "link").symlink_to(precious)
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        write_atomically(tmp_path / name, b"page")
        assert (tmp_path / name).read_bytes() == b"page"
        assert not (tmp_path / name).is_symlink()
    assert precious.read_bytes() == b"mine"


def test_a_device_is_written_to(capfd):
    write_atomically(Path("/dev/stdout"), b"said")
    assert capfd.readouterr().out == "said"
    assert Path("/dev/stdout").is_symlink()


def test_only_regular_files_are_read(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "link").symlink_to("a")
    assert read_json(tmp_path / "link") == 1
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("pipe", "device", ""):
        with pytest.raises(DataError, match="not a regular file"):
            read_regular(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "nowhere")


@pytest.mark.parametrize("text", ["{", "[" * 200_000, "9" * 5000, "\ud800"], ids=["cut", "deep", "huge", "no text"])
def test_damaged_json_is_a_data_error_that_names_the_place(text):
    with pytest.raises(DataError, match="config is damaged"):
        parse_json(text.encode("utf-8", "surrogatepass"), "config")


def test_json_is_strict():
    assert to_json({"a": float("nan"), "b": [float("inf"), 1.5], "c": (1, None)}) == (
        '{"a": null, "b": [null, 1.5], "c": [1, null]}'
    )


def test_lines_are_appended_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "ledger.jsonl"
    path.write_text("an editor left no end")
    append_line(path, "second")
    assert path.read_text() == "an editor left no end\nsecond\n"

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        append_line(path, "third")
    assert path.read_text() == "an editor left no end\nsecond\n"


HOLD_UNTIL_KILLED = """
import sys, time
from pathlib import Path
from puridiver.files import file_lock
with file_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_killed_holder_does_not_block_the_next_one(tmp_path):
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD_UNTIL_KILLED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(BusyError), file_lock(path, wait_seconds=0):
            pass
        holder.kill()
    with file_lock(path, wait_seconds=5):
        pass

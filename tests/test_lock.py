from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from puridiver.errors import DataError
from puridiver.files import file_lock

HOLD_UNTIL_KILLED = """
import sys, time
from pathlib import Path
from puridiver.files import file_lock
with file_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_held_lock_is_not_given_twice(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with (
        file_lock(path),
        pytest.raises(DataError, match=f"holds the lock {path}"),
        file_lock(path, wait_seconds=0),
    ):
        pass


def test_a_released_lock_can_be_taken_again_and_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    for _ in range(2):
        with file_lock(path, wait_seconds=0):
            assert path.exists()
        assert not path.exists()


def test_a_killed_holder_does_not_block_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD_UNTIL_KILLED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(DataError), file_lock(path, wait_seconds=0):
            pass
        holder.kill()
    with file_lock(path, wait_seconds=5):
        pass

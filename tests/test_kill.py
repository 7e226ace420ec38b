"""Runs killed with SIGKILL at many moments of every phase, resumed, killed again: the final bits are the same."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from puridiver import Learner
from tests.killing import MOMENTS, Server
from tests.learner_samples import differing, tensors_of
from tests.resume_samples import traces

TINY = [
    "run", "--tasks", "2", "--memory", "20", "--network", "small", "--device", "cpu", "--epochs", "3", "--seed", "1",
    "--stream-limit", "48", "--test-limit", "40", "--no-diversity", "--quiet",
    "--set", "warmup_epochs=1", "--set", "smallest_set=0",
]  # fmt: skip
KILLED = -signal.SIGKILL
# How often each moment comes in a run with a checkpoint after every batch and epoch (at least).
REACH = {
    "stream": 6, "memory update": 6, "step": 12, "memory epoch": 6, "evaluation": 8, "half an event": 14,
    "half a file": 36, "before a rename": 36, "after a rename": 72, "clearing away": 14, "finishing": 1,
}  # fmt: skip

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture(scope="module")
def whole(server, tmp_path_factory) -> Path:
    """A run that nobody interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert server.run([*TINY, "--out", str(folder)]) == 0
    return folder


def resumed(folder: Path, every: float) -> list[str]:
    return [*TINY, "--out", str(folder), "--resume", "--checkpoint-every", str(every)]


def assert_same_end(folder: Path, whole: Path) -> None:
    assert traces(folder) == traces(whole)
    ends = [Learner.load(path.with_name("run-learner"), device="cpu") for path in (folder, whole)]
    assert differing(tensors_of(ends[0]), tensors_of(ends[1])) == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_again_and_again_a_run_ends_in_the_same_bits(moment, server, whole, tmp_path):
    dice, folder = random.Random(moment), tmp_path / "run"
    assert server.run(resumed(folder, 1e-9), kill=(moment, dice.randint(1, REACH[moment]))) == KILLED
    # Less of the run is left now: it may come to its end before the moment does.
    again = server.run(resumed(folder, 0), kill=(moment, dice.randint(1, max(1, REACH[moment] // 4))))
    assert again in (KILLED, 0)
    assert server.run(resumed(folder, 1e-9)) == 0
    assert_same_end(folder, whole)


@pytest.mark.parametrize("moment", ["before a rename", "after a rename"])
def test_killed_at_its_very_first_file_a_run_starts_again(moment, server, whole, tmp_path):
    folder = tmp_path / "run"
    assert server.run(resumed(folder, 60), kill=(moment, 1)) == KILLED
    assert server.run(resumed(folder, 60)) == 0
    assert_same_end(folder, whole)


def test_a_chain_of_kills_at_random_moments_ends_in_the_same_bits(server, whole, tmp_path):
    dice, folder = random.Random(7), tmp_path / "run"
    moments = dice.sample([name for name in MOMENTS if name != "finishing"], 8)
    ends = [server.run(resumed(folder, 1e-9), kill=(moment, dice.randint(1, 3))) for moment in moments]
    assert ends.count(KILLED) >= 5
    assert server.run(resumed(folder, 60)) == 0
    assert_same_end(folder, whole)


def test_killed_from_outside_at_any_time_a_run_ends_in_the_same_bits(server, whole, tmp_path):
    dice, folder = random.Random(3), tmp_path / "run"
    ends = [server.run(resumed(folder, 0.01), after=dice.uniform(0.05, 0.5)) for _ in range(6)]
    assert KILLED in ends
    assert server.run(resumed(folder, 60)) == 0
    assert_same_end(folder, whole)


# A process of its own, as a user starts it -------------------------------------------------------------------------


def started(*argv: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "puridiver", *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def checkpoints(folder: Path) -> set[Path]:
    return set(folder.glob("checkpoint/*/state.json"))


def wait_for_a_checkpoint(folder: Path, process: subprocess.Popen) -> None:
    """Until there is one that was not there before."""
    before, deadline = checkpoints(folder), time.monotonic() + 60
    while not checkpoints(folder) - before:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)


# Long enough to be caught in the middle.
LONGER = [*TINY, "--memory", "60", "--epochs", "20", "--checkpoint-every", "0.05"]


def test_ctrl_c_and_kill_9_are_survived_by_the_command_itself(tmp_path):
    folder, untouched = tmp_path / "run", tmp_path / "untouched"
    process = started(*LONGER, "--out", str(folder))
    wait_for_a_checkpoint(folder, process)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopping after this batch or memory epoch" in told
    assert f"to continue: puridiver run --out {folder} --resume\n" in told
    assert "Traceback" not in told
    assert not (folder / "summary.json").exists()

    process = started("run", "--out", str(folder), "--resume", "--quiet", "--checkpoint-every", "0.05")
    wait_for_a_checkpoint(folder, process)
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == KILLED
    assert not (folder / "summary.json").exists()
    process = started("run", "--out", str(folder), "--resume", "--quiet")
    table, told = process.communicate(timeout=120)
    assert process.returncode == 0, told
    assert "last accuracy" in table
    process = started(*LONGER, "--out", str(untouched))
    process.communicate(timeout=120)
    assert traces(folder) == traces(untouched)

"""Runs killed with SIGKILL at many moments of every phase, resumed, killed again: the final bits are the same."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from puridiver import Learner
from tests.learner_samples import differing, tensors_of
from tests.runs.killing import CTRL_C, MOMENTS, Server
from tests.runs.samples import traces

# Plain methods: that all state of the others is saved is for test_resume.py to see.
TINY = [
    "run", "--tasks", "2", "--memory", "20", "--network", "small", "--device", "cpu", "--epochs", "2", "--seed", "1",
    "--stream-limit", "32", "--test-limit", "40", "--no-diversity", "--quiet", "--sampler", "rsv", "--trainer", "plain",
]  # fmt: skip
KILLED = -signal.SIGKILL
# How often each moment comes in a run with a checkpoint after every batch and epoch (at least).
REACH = {
    "stream": 4, "step": 8, "evaluation": 4, "half an event": 6, "half a file": 20, "before a rename": 20,
    "after a rename": 30, "clearing away": 8, "finishing": 1,
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
    ends = [Learner.load(path, device="cpu") for path in (folder, whole)]
    assert differing(tensors_of(ends[0]), tensors_of(ends[1])) == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_any_moment_a_run_ends_in_the_same_bits(moment, server, whole, tmp_path):
    folder = tmp_path / "run"
    n = random.Random(moment).randint(1, REACH[moment])
    assert server.run(resumed(folder, 1e-9), kill=(moment, n)) == KILLED
    assert server.run(resumed(folder, 1e-9)) == 0
    assert_same_end(folder, whole)


def test_killed_while_force_replaces_a_run_the_new_one_ends_in_the_same_bits(server, whole, tmp_path):
    folder = tmp_path / "run"
    other = ["--noise", "sym-20", "--out", str(folder)]
    assert server.run([*TINY, *other], kill=("evaluation", 3)) == KILLED
    for moment in ("clearing away", "before a rename"):
        assert server.run([*TINY, "--force", "--out", str(folder)], kill=(moment, 1)) == KILLED
    assert server.run([*TINY, "--force", "--out", str(folder)]) == 0
    assert_same_end(folder, whole)


def test_a_chain_of_kills_at_random_moments_ends_in_the_same_bits(server, whole, tmp_path):
    dice, folder = random.Random(7), tmp_path / "run"
    moments = ["before a rename", *dice.sample([name for name in MOMENTS if name != "finishing"], 5)]
    ends = [server.run(resumed(folder, 1e-9), kill=(moment, dice.randint(1, 3))) for moment in moments]
    assert ends.count(KILLED) >= 3
    assert server.run(resumed(folder, 60)) == 0
    assert_same_end(folder, whole)


def test_ctrl_c_leaves_a_checkpoint_and_says_how_to_go_on(server, whole, tmp_path):
    folder, errors = tmp_path / "run", tmp_path / "errors.txt"
    assert server.run([*TINY, "--out", str(folder)], kill=(CTRL_C, 3), errors=errors) == 130
    assert "--resume" in errors.read_text()
    assert "Traceback" not in errors.read_text()
    assert list(folder.glob("checkpoint/*/state.json"))
    assert not (folder / "summary.json").exists()
    assert server.run(["run", "--out", str(folder), "--resume", "--quiet"]) == 0
    assert_same_end(folder, whole)

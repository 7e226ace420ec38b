"""Runs killed with SIGKILL in every phase and resumed: the final bits are those of a run that nobody interrupted."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from puridiver import Learner
from puridiver.cli import main
from puridiver.files import to_json
from puridiver.learner import storage
from puridiver.metrics.recorder import Recorder
from puridiver.runs import checkpoint
from puridiver.runs import folder as runs
from puridiver.runs.checkpoint import Checkpoint
from tests.learner_samples import differing, tensors_of
from tests.runs.samples import traces

# Plain methods: that all state of the others is saved is for test_resume.py to see.
TINY = [
    "run", "--tasks", "2", "--memory", "20", "--network", "small", "--device", "cpu", "--epochs", "2", "--seed", "1",
    "--stream-limit", "32", "--test-limit", "40", "--no-diversity", "--quiet", "--sampler", "rsv", "--trainer", "plain",
    "--set", "batch_size=16",
]  # fmt: skip
KILLED = -signal.SIGKILL

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def half_line(folder: runs.RunFolder, event: dict[str, Any]) -> None:
    with (folder.path / runs.METRICS).open("a") as file:
        file.write(to_json(event)[:10])


def half_removed(path: Path) -> None:
    (path / storage.FILE).unlink(missing_ok=True)


# What dies where: at the n-th call of a function, of which `instead` has done a part. A step is amid a batch or an
# epoch. The product knows nothing of this: the process replaces the function at which it is to die.
MOMENTS: dict[str, tuple[Any, str, int, Callable[..., None] | None]] = {
    "step of the stream": (torch.Tensor, "backward", 2, None),
    "step on the memory": (torch.Tensor, "backward", 4, None),
    "evaluation": (Recorder, "evaluate", 3, None),
    "half an event": (runs.RunFolder, "append", 5, half_line),
    "before a rename": (os, "replace", 9, None),
    "clearing away": (checkpoint, "remove_save", 1, half_removed),
    "finishing": (Checkpoint, "remove", 1, None),
}
OF_FORCE = {
    "clearing away the older run": (runs, "remove_save", 1, half_removed),
    "first rename": (os, "replace", 1, None),
}


def work(argv: list[str], moment: str | None) -> None:
    """What a process does."""
    torch.set_num_threads(1)
    if moment is not None:
        owner, name, n, instead = {**MOMENTS, **OF_FORCE}[moment]
        original, calls = getattr(owner, name), []

        def dying(*args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            if len(calls) == n:
                if instead is not None:
                    instead(*args, **kwargs)
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **kwargs)

        setattr(owner, name, dying)
    sys.exit(main(argv))


def run(*argv: str, kill: str | None = None) -> int | None:
    """The exit status of `puridiver ARGV`, negative for a signal."""
    context = multiprocessing.get_context("forkserver")  # imports this module once
    context.set_forkserver_preload([__name__])
    process = context.Process(target=work, args=(list(argv), kill))
    process.start()
    process.join()
    return process.exitcode


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A run that nobody interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert run(*TINY, "--out", str(folder)) == 0
    return folder


def assert_same_end(folder: Path, whole: Path) -> None:
    assert traces(folder) == traces(whole)
    ends = [Learner.load(path, device="cpu") for path in (folder, whole)]
    assert differing(tensors_of(ends[0]), tensors_of(ends[1])) == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_any_moment_a_run_ends_in_the_same_bits(moment, whole, tmp_path):
    words = [*TINY, "--out", str(tmp_path / "run"), "--resume", "--checkpoint-every", "1e-9"]
    assert run(*words, kill=moment) == KILLED
    assert run(*words) == 0
    assert_same_end(tmp_path / "run", whole)


def test_killed_while_force_replaces_a_run_the_new_one_ends_in_the_same_bits(whole, tmp_path):
    words = [*TINY, "--out", str(tmp_path / "run")]
    assert run(*words, "--noise", "sym-20", kill="evaluation") == KILLED
    for moment in OF_FORCE:
        assert run(*words, "--force", kill=moment) == KILLED
    assert run(*words, "--force") == 0
    assert_same_end(tmp_path / "run", whole)

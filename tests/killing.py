"""Runs `puridiver run` in processes that die by SIGKILL at chosen moments.

A server (`python -m tests.killing`) imports everything once and forks a process for each line of its standard input:
{"argv": [...], "kill": [moment, n] or null, "after": seconds or null}. It answers with how the process ended.
The product knows nothing of this: the forked process replaces the functions at which it is to die.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from puridiver.cli import main
from puridiver.learner import storage
from puridiver.learner.learner import Learner
from puridiver.memory import SAMPLERS
from puridiver.metrics import Recorder
from puridiver.runs import folder as runs
from puridiver.runs.checkpoint import Checkpoints
from puridiver.runs.loop import Course
from puridiver.trainers.base import Trainer


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at_call(owner: Any, name: str, n: int, instead: Callable[..., Any] | None = None) -> None:
    """Die at the n-th call of a function; `instead` first does a part of the work."""
    original, calls = getattr(owner, name), []

    def dying(*args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        if len(calls) == n:
            if instead is not None:
                instead(*args, **kwargs)
            die()
        return original(*args, **kwargs)

    setattr(owner, name, dying)


def half_write(path: Path, content: bytes) -> None:
    """What a process that dies amid a write leaves: a part of the temporary file."""
    with path.with_name(f".{path.name}.1-1.tmp").open("wb") as file:
        file.write(content[: len(content) // 2])


def half_line(folder: runs.RunFolder, event: dict[str, Any]) -> None:
    with (folder.path / runs.METRICS).open("a") as file:
        file.write(runs.to_json(event)[:10])


def half_removed(path: Path, **options: Any) -> None:
    next(Path(path).iterdir()).unlink()


def in_memory_update(n: int) -> None:
    at_call(SAMPLERS["puridiver"], "choose", n)


# What dies where. `step` is amid a batch or an epoch: some of its weights have changed.
MOMENTS: dict[str, Callable[[int], None]] = {
    "stream": lambda n: at_call(Learner, "observe", n),
    "memory update": in_memory_update,
    "step": lambda n: at_call(Trainer, "step", n),
    "memory epoch": lambda n: at_call(Trainer, "next_memory_view", n),
    "evaluation": lambda n: at_call(Recorder, "evaluate", n),
    "half an event": lambda n: at_call(runs.RunFolder, "append", n, half_line),
    "half a file": lambda n: at_call(storage, "write_atomically", n, half_write),
    "before a rename": lambda n: at_call(os, "replace", n),
    "after a rename": lambda n: at_call(storage, "sync_folder", n),
    "clearing away": lambda n: at_call(shutil, "rmtree", n, half_removed),
    "finishing": lambda n: at_call(Checkpoints, "remove", n),
}


def keep_final_learner() -> None:
    """A finished run keeps no weights; the tests want to compare them."""
    original = Course.run

    def run(self: Course, stopping: threading.Event, saving: Any = None) -> None:
        original(self, stopping, saving)
        self.learner.save(saving.out.path.with_name(saving.out.path.name + "-learner"))

    Course.run = run  # type: ignore[method-assign]


def serve() -> None:
    torch.set_num_threads(1)
    tiny = ["--stream-limit", "16", "--test-limit", "2", "--epochs", "1", "--no-diversity", "--device", "cpu"]
    with contextlib.redirect_stdout(None):
        main(["run", "--quiet", *tiny])  # imports what is imported on demand, once for all processes
    keep_final_learner()
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _work(job)
        if job["after"] is not None:
            time.sleep(job["after"])
            os.kill(pid, signal.SIGKILL)  # not yet waited for, so the id is still its own
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        sys.stdout.write(json.dumps(status) + "\n")
        sys.stdout.flush()


def _work(job: dict[str, Any]) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    if job["kill"]:
        moment, n = job["kill"]
        MOMENTS[moment](n)
    status = 99
    try:
        status = main(job["argv"])
    finally:
        os._exit(status)


class Server:
    """The tests' end of it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.killing"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip

    def run(self, argv: list[str], kill: tuple[str, int] | None = None, after: float | None = None) -> int:
        """The exit status of `puridiver ARGV`, negative for a signal."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"argv": argv, "kill": kill, "after": after}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()


if __name__ == "__main__":
    serve()

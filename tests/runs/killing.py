"""Runs `puridiver run` in processes that die by SIGKILL at chosen moments.

A server (`python -m tests.runs.killing`) imports everything once and forks a process for each line of its standard
input: {"argv": [...], "kill": [moment, n] or null, "errors": a file or null}. It answers with how the process ended.
The product knows nothing of this: the forked process replaces the functions at which it is to die.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from puridiver import files
from puridiver.cli import main
from puridiver.files import to_json
from puridiver.learner import storage
from puridiver.learner.learner import Learner
from puridiver.metrics.recorder import Recorder
from puridiver.runs import checkpoint
from puridiver.runs import folder as runs
from puridiver.runs.checkpoint import Checkpoints


def at_call(owner: Any, name: str, n: int, instead: Callable[..., Any] | None = None, by: int = signal.SIGKILL) -> None:
    """Get a signal at the n-th call of a function; `instead` first does a part of the work."""
    original, calls = getattr(owner, name), []

    def dying(*args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        if len(calls) == n:
            if instead is not None:
                instead(*args, **kwargs)
            os.kill(os.getpid(), by)
        return original(*args, **kwargs)

    setattr(owner, name, dying)


def half_write(path: Path, content: bytes) -> None:
    """What a process that dies amid a write leaves: a part of the temporary file."""
    with path.with_name(f".{path.name}.1-1.tmp").open("wb") as file:
        file.write(content[: len(content) // 2])


def half_line(folder: runs.RunFolder, event: dict[str, Any]) -> None:
    with (folder.path / runs.METRICS).open("a") as file:
        file.write(to_json(event)[:10])


def half_removed(path: Path) -> None:
    if path.is_dir():
        (path / storage.INDEX).unlink(missing_ok=True)


# What dies where. `step` is amid a batch or an epoch: some of its weights have changed.
MOMENTS: dict[str, Callable[[int], None]] = {
    "stream": lambda n: at_call(Learner, "observe", n),
    "step": lambda n: at_call(torch.Tensor, "backward", n),
    "evaluation": lambda n: at_call(Recorder, "evaluate", n),
    "half an event": lambda n: at_call(runs.RunFolder, "append", n, half_line),
    "half a file": lambda n: at_call(storage, "write_atomically", n, half_write),
    "before a rename": lambda n: at_call(os, "replace", n),
    "after a rename": lambda n: at_call(files, "sync_folder", n),
    "clearing away": lambda n: at_call(checkpoint, "remove_save", n, half_removed),
    "finishing": lambda n: at_call(Checkpoints, "remove", n),
}
CTRL_C = "ctrl-c"


def serve() -> None:
    torch.set_num_threads(1)
    tiny = ["--stream-limit", "16", "--test-limit", "2", "--epochs", "1", "--no-diversity", "--device", "cpu"]
    with contextlib.redirect_stdout(io.StringIO()):
        main(["run", "--quiet", *tiny])  # imports what is imported on demand, once for all processes
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _work(job)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        sys.stdout.write(json.dumps(status) + "\n")
        sys.stdout.flush()


def _work(job: dict[str, Any]) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    os.dup2(os.open(job["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC) if job["errors"] else null, 2)
    if job["kill"]:
        moment, n = job["kill"]
        if moment == CTRL_C:
            at_call(Learner, "observe", n, by=signal.SIGINT)
        else:
            MOMENTS[moment](n)
    status = 99
    try:
        status = main(job["argv"])
    except SystemExit as end:
        status = int(end.code or 0)
    finally:
        os._exit(status)


class Server:
    """The tests' end of it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.runs.killing"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip

    def run(self, argv: list[str], kill: tuple[str, int] | None = None, errors: Path | None = None) -> int:
        """The exit status of `puridiver ARGV`, negative for a signal; what it says of errors goes to a file."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"argv": argv, "kill": kill, "errors": errors and str(errors)}) + "\n")
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

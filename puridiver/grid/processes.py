"""Runs cells in worker processes of this machine, to use all cores of a CPU.

The grid and its workers (`serve`) exchange jobs and events through pipes. The process pools of the standard library do
not suit: they import the user's script again, and one killed worker ends the cells of all others.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

from puridiver.grid.engines import ATTEMPTS, Engine, Event, Job, Report, Sources, run_job

PATIENCE_SECONDS = 5.0  # for the last checkpoint of a worker
# Every library that torch or NumPy may count threads with. Without this, processes slow each other down many times.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class ProcessEngine(Engine):
    """`workers` processes, each with its share of the cores. Each loads a data set once."""

    def __init__(self, workers: int, logs: Path) -> None:
        super().__init__(workers)
        self.log = logs / "workers.log"
        self.started: list[subprocess.Popen[bytes]] = []
        self.idle: list[subprocess.Popen[bytes]] = []

    def run_one(self, job: Job, report: Report) -> None:
        """Run a job in an idle or new worker; if that dies, try again in a new one."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                process = self.idle.pop()
            except IndexError:
                process = self._start()
            if _ran(process, job, report):
                self.idle.append(process)
                return
            if self.stopping.is_set():
                return
            death = f"worker process {process.pid} ended with code {process.wait()}; the workers said last:\n"
            death += self.log.read_text(errors="replace")[-2000:].strip()
            kind = "failed" if attempt == ATTEMPTS else "lost"
            report(Event(kind, job.id, {"error": death, "traceback": death}))

    def _start(self) -> subprocess.Popen[bytes]:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        program = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve()"
        threads = dict.fromkeys(THREAD_VARIABLES, str(max(1, cores() // self.workers)))
        with self.log.open("ab") as errors:
            process = subprocess.Popen(
                [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                env={**os.environ, **threads},
                start_new_session=True,  # Ctrl-C is for the grid, which then stops its workers
            )  # fmt: skip
        self.started.append(process)
        if self.stopping.is_set():  # `stop` may have missed it
            process.terminate()
        return process

    def stop(self) -> None:
        for process in self.started:
            process.terminate()  # all at once, so that they write their last checkpoints side by side
        for process in self.started:
            with suppress(BrokenPipeError), process:
                try:
                    process.wait(PATIENCE_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()


def _ran(process: subprocess.Popen[bytes], job: Job, report: Report) -> bool:
    """Run a job in a worker process and report its events; False if the process died over it."""
    jobs, events = cast(IO[bytes], process.stdin), cast(IO[bytes], process.stdout)
    try:
        pickle.dump(job, jobs)
        jobs.flush()
        kind = ""
        while kind not in ("finished", "failed"):
            event = pickle.load(events)
            report(event)
            kind = event.kind
    except (EOFError, OSError, pickle.UnpicklingError):  # what a killed process wrote last may be torn
        return False
    return True


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def serve() -> None:
    """Run the jobs of standard input until it ends: what a worker process does. At SIGTERM it writes a checkpoint.

    If the grid is gone, the next report of progress fails, which ends the worker.
    """
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints must not mix with the events
    stopping, sources = threading.Event(), Sources()

    def report(event: Event) -> None:
        pickle.dump(event, out)
        out.flush()

    with suppress(EOFError):
        while not stopping.is_set():
            job = pickle.load(sys.stdin.buffer)
            signal.signal(signal.SIGTERM, lambda *signal_and_frame: stopping.set())
            run_job(job, sources, report, stopping)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # while idle it may end at once

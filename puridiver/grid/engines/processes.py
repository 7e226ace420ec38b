"""Runs cells in worker processes of this machine, to use all cores of a CPU.

A worker (`serve`) reads jobs from standard input and writes events to standard output, a line each. It ends when its
input ends, even in the middle of a run: then the grid is gone, and the next one may already need the same folder. At
SIGTERM it writes a checkpoint first.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from puridiver.files import to_json
from puridiver.grid.engines.base import ATTEMPTS, Engine, Event, Job, Report, Sources, run_job

PATIENCE_SECONDS = 5.0
# Every library that torch or NumPy may count threads with. Without this, processes slow each other down many times.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class ProcessEngine(Engine):
    """`workers` processes, each with its share of the cores. Each loads a data set once."""

    def __init__(self, workers: int, logs: Path) -> None:
        super().__init__()
        self.workers, self.logs = workers, logs
        self.processes: dict[int, subprocess.Popen[str]] = {}

    def run_all(self, jobs: Sequence[Job], report: Report) -> None:
        waiting = list(reversed(jobs))
        with ThreadPoolExecutor(self.workers) as threads:
            list(threads.map(lambda number: self._serve(number, waiting, report), range(self.workers)))

    def _serve(self, number: int, waiting: list[Job], report: Report) -> None:
        """Give jobs to one worker process, one after the other; a process that dies is replaced."""
        log, deaths = self.logs / f"worker-{number}.log", 0
        job = _next(waiting)
        while job is not None and not self.stopping.is_set():
            with _start(log, max(1, cores() // self.workers)) as process:  # closes its input, which ends it
                self.processes[number] = process
                while job is not None and not self.stopping.is_set() and _ran(process, job, report):
                    job, deaths = _next(waiting), 0
            if job is None or self.stopping.is_set():
                return
            deaths += 1
            how = f"worker process {process.pid} ended with code {process.returncode}"
            death = f"{how}; it said last:\n{log.read_text(errors='replace')[-2000:].strip()}"
            report(Event("failed" if deaths == ATTEMPTS else "lost", job.id, {"error": death, "traceback": death}))
            if deaths == ATTEMPTS:
                job, deaths = _next(waiting), 0

    def stop(self) -> None:
        for process in list(self.processes.values()):
            process.terminate()  # all at once, so that they write their last checkpoints side by side
        for process in list(self.processes.values()):
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _next(waiting: list[Job]) -> Job | None:
    with suppress(IndexError):  # another thread may have taken the last
        return waiting.pop()
    return None


def _ran(process: subprocess.Popen[str], job: Job, report: Report) -> bool:
    """Run a job in a worker process; False if the process died over it."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):  # it died: then it says nothing
        process.stdin.write(pickle.dumps(job).hex() + "\n")
        process.stdin.flush()
    for line in process.stdout:
        with suppress(ValueError):  # the torn last line of a process that was killed
            event = Event(**json.loads(line))
            report(event)
            if event.kind in ("finished", "failed"):
                return True
    return False


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _start(log: Path, threads: int) -> subprocess.Popen[str]:
    log.parent.mkdir(parents=True, exist_ok=True)
    paths = [str(Path(__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads)), "PYTHONPATH": os.pathsep.join(paths)}
    with log.open("wb") as errors:
        return subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve()"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1, env=environment,
            start_new_session=True,  # Ctrl-C is for the process that leads, which then stops its workers
        )  # fmt: skip


def serve() -> None:
    """Run the jobs of standard input: what a worker process does."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints must not mix with the events
    jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()  # simple: a signal handler may put into it
    stopping, sources = threading.Event(), Sources()

    def read_jobs() -> None:
        for line in sys.stdin:
            jobs.put(pickle.loads(bytes.fromhex(line)))
        os._exit(0)

    def stop(*signal_and_frame: object) -> None:
        stopping.set()
        jobs.put(None)

    threading.Thread(target=read_jobs, daemon=True).start()
    signal.signal(signal.SIGTERM, stop)
    while (job := jobs.get()) is not None and not stopping.is_set():
        run_job(job, sources, lambda event: print(to_json(vars(event)), file=out), stopping.is_set)
    out.flush()
    os._exit(0)  # at once: the thread that waits for jobs cannot be woken

"""Runs cells in worker processes of this machine: the way to use all cores of a CPU."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from puridiver.grid.engines.base import Backlog, Engine, Event, Job

MODULE = "puridiver.grid.engines.worker"
PATIENCE_SECONDS = 5.0
# Every library that torch or NumPy may count threads with. Without this, processes slow each other down many times.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Worker:
    """One process, the job it is at, and a thread that listens to it."""

    def __init__(self, number: int, threads: int, logs: Path, inbox: queue.Queue[tuple[Worker, Event | None]]) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self.job: Job | None = None
        self.log = logs / f"worker-{number}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", MODULE],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1,
                env=_environment(threads),
                start_new_session=True,  # Ctrl-C is for the process that leads, which then stops its workers
            )  # fmt: skip
        threading.Thread(target=self._listen, args=(inbox,), daemon=True).start()

    def give(self, job: Job) -> None:
        self.job = job
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it died: the listener says so, and the job is tried again
            self.process.stdin.write(json.dumps(job.to_dict()) + "\n")
            self.process.stdin.flush()

    def _listen(self, inbox: queue.Queue[tuple[Worker, Event | None]]) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with suppress(ValueError):  # the torn last line of a process that was killed
                inbox.put((self, Event(**json.loads(line))))
        inbox.put((self, None))

    def epitaph(self) -> str:
        """How the process ended."""
        code = self.process.wait()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        tail = self.log.read_text(errors="replace")[-2000:].strip() if self.log.exists() else ""
        return f"worker process {self.process.pid} {how}" + (f"; it said last:\n{tail}" if tail else "")

    def dismiss(self) -> None:
        with suppress(OSError):
            self.process.terminate()
        try:
            self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError, ValueError):
                pipe.close()  # type: ignore[union-attr]


class ProcessEngine(Engine):
    """`processes` runs at a time, each with its share of the cores; a worker loads a data set once."""

    def __init__(self, processes: int, logs: Path) -> None:
        super().__init__()
        self.processes, self.logs = processes, logs
        self.threads = max(1, cores() // processes)
        self.crew: list[Worker] = []
        self._hired = 0

    @property
    def workers(self) -> int:
        return self.processes

    def events(self, jobs: Sequence[Job]) -> Generator[Event, None, None]:
        backlog, inbox = Backlog(jobs), queue.Queue[tuple[Worker, Event | None]]()
        try:
            while self._distribute(backlog, inbox):
                worker, event = inbox.get()
                if event is None:
                    yield from self._bury(worker, backlog)
                    continue
                if event.kind in ("finished", "failed"):
                    worker.job = None
                yield event
        finally:
            for worker in self.crew:
                worker.process.terminate()  # all at once, so that their last checkpoints are written side by side
            for worker in self.crew:
                worker.dismiss()
            self.crew = []

    def _distribute(self, backlog: Backlog, inbox: queue.Queue[tuple[Worker, Event | None]]) -> bool:
        """Give waiting jobs to free workers, hiring where some are missing; whether anything is being done."""
        while backlog.waiting and not self.draining:
            free = next((worker for worker in self.crew if worker.job is None), None)
            if free is None and len(self.crew) < self.processes:
                self._hired += 1
                free = Worker(self._hired, self.threads, self.logs, inbox)
                self.crew.append(free)
            if free is None:
                break
            free.give(backlog.waiting.popleft())
        return any(worker.job for worker in self.crew)

    def _bury(self, worker: Worker, backlog: Backlog) -> Iterator[Event]:
        if worker in self.crew:
            self.crew.remove(worker)
            epitaph, job = worker.epitaph(), worker.job
            worker.dismiss()
            if job is not None:
                yield backlog.lost(job, epitaph)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _environment(threads: int) -> dict[str, str]:
    package_root = str(Path(__file__).parents[3])
    paths = [package_root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        **dict.fromkeys(THREAD_VARIABLES, str(threads)),
        "PYTHONPATH": os.pathsep.join(paths),  # workers run the same code, wherever they are started
    }

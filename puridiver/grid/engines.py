"""How the cells of a grid run: in threads that share a GPU, in processes that share the cores, or on a Ray cluster."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from puridiver.data.base import DataSource
from puridiver.runs import Progress
from puridiver.runs.config import RunConfig
from puridiver.runs.experiment import Experiment
from puridiver.runs.resolve import file_options, load_source, source_name
from puridiver.runtime.capture import lane
from puridiver.runtime.device import choose_runtime

ENGINES = ("auto", "lanes", "processes", "ray")
LANES_ON_GPU = 8
ATTEMPTS = 3  # at a cell whose worker dies
SECONDS_BETWEEN_REPORTS = 0.5
PATIENCE_SECONDS = 5.0  # for the last checkpoint of a worker
# Every library that torch or NumPy may count threads with. Without this, processes slow each other down many times.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Job:
    """One run: its id, its config, the folder it writes to, and how many runs share the device."""

    id: str
    config: RunConfig
    folder: Path
    lanes: int = 1


@dataclass(frozen=True)
class Event:
    """What happened to a job: "advanced", "finished", "failed" or "lost" (its worker died; it is tried again).

    `detail` is the summary of a finished job, `error` and `traceback` of a failed or lost one, and the `share` that is
    done of one that advanced.
    """

    kind: str
    id: str
    detail: dict[str, Any] = field(default_factory=dict)


Report = Callable[[Event], None]


class Sources:
    """Data sets, each loaded once."""

    def __init__(self) -> None:
        self.loaded: dict[tuple[object, ...], DataSource] = {}

    def of(self, config: RunConfig) -> DataSource:
        key = (source_name(config), config.data_root, file_options(config))
        if key not in self.loaded:
            self.loaded[key] = load_source(config)
        return self.loaded[key]


class JobProgress(Progress):
    """Reports the progress of a run, at most twice a second, and stops the run when the engine stops."""

    def __init__(self, id: str, report: Report, stopping: threading.Event) -> None:
        self.id, self.report, self.stopping = id, report, stopping
        self.experiment: Experiment | None = None
        self.total, self.done, self.last_report = 1, 0, 0.0

    def start(self, total: int) -> None:
        self.total = max(total, 1)

    def advance(self, amount: int, text: str) -> None:
        if self.stopping.is_set() and self.experiment is not None:
            self.experiment.stop()
        self.done += amount
        if time.monotonic() - self.last_report >= SECONDS_BETWEEN_REPORTS:
            self.last_report = time.monotonic()
            self.report(Event("advanced", self.id, {"share": min(self.done / self.total, 1.0)}))


def run_job(job: Job, report: Report, stopping: threading.Event, source: DataSource | None = None) -> None:
    """Run one cell to its end, from its last checkpoint if there is one; report what goes wrong instead of raising."""
    progress = JobProgress(job.id, report, stopping)
    try:
        experiment = progress.experiment = Experiment(job.config, progress, source)
        experiment.lanes = job.lanes
        report(Event("finished", job.id, experiment.run(job.folder, resume=True)))
    except KeyboardInterrupt:  # stopped; it has left a checkpoint
        return
    except Exception as error:
        report(failed(job, error))


def failed(job: Job, error: BaseException) -> Event:
    text = "".join(traceback.format_exception(error))
    return Event("failed", job.id, {"error": f"{type(error).__name__}: {error}", "traceback": text})


class Engine(ABC):
    """Runs jobs once, `workers` at a time of which `lanes` share a device, and reports what happens to them."""

    def __init__(self, workers: int, lanes: int = 1) -> None:
        self.workers, self.lanes, self.stopping = workers, lanes, threading.Event()

    def run(self, jobs: Sequence[Job], report: Report) -> None:
        """Run all jobs. `report` is called in this thread; if it raises, the jobs that still run are stopped."""
        events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()  # None: a job has ended

        def work(job: Job) -> None:
            try:
                if not self.stopping.is_set():
                    self.run_one(job, events.put)
            except Exception as error:
                events.put(failed(job, error))
            finally:
                events.put(None)

        with ThreadPoolExecutor(self.workers) as threads:
            left = len([threads.submit(work, job) for job in jobs])
            try:
                while left:
                    if (event := events.get()) is None:
                        left -= 1
                    else:
                        report(event)
            finally:
                self.stopping.set()
                self.stop()

    @abstractmethod
    def run_one(self, job: Job, report: Report) -> None:
        """Run a job in the calling thread until it ends, or until `self.stopping` is set."""

    def stop(self) -> None:  # noqa: B027
        """End what does not look at `self.stopping`; also called when all jobs are done."""


class LaneEngine(Engine):
    """Runs cells in threads of this process that share one GPU (or, slowly, a CPU) and the loaded data."""

    def __init__(self, workers: int, device: torch.device, sources: Sources) -> None:
        super().__init__(workers, lanes=workers)
        self.device, self.sources = device, sources

    def run_one(self, job: Job, report: Report) -> None:
        with lane(self.device):
            run_job(job, report, self.stopping, self.sources.of(job.config))


class ProcessEngine(Engine):
    """Runs each cell in a process of its own, with its share of the cores. If that dies, the cell is tried again.

    The process pools of the standard library do not suit: they import the user's script again, and one killed worker
    ends the cells of all others.
    """

    def __init__(self, workers: int, logs: Path) -> None:
        super().__init__(workers)
        self.log, self.running = logs / "workers.log", set[subprocess.Popen[bytes]]()

    def run_one(self, job: Job, report: Report) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            kind, code = self._attempt(job, report)
            if kind in ("finished", "failed") or self.stopping.is_set():
                return
            death = f"a worker process ended with code {code}; the workers said last:\n"
            death += self.log.read_text(errors="replace")[-2000:].strip()
            kind = "failed" if attempt == ATTEMPTS else "lost"
            report(Event(kind, job.id, {"error": death, "traceback": death}))

    def _attempt(self, job: Job, report: Report) -> tuple[str, int]:
        """Run a job in a new process: the kind of its last event, and the exit code."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        program = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve()"
        threads = dict.fromkeys(THREAD_VARIABLES, str(max(1, cores() // self.workers)))
        kind = ""
        with self.log.open("ab") as errors, suppress(BrokenPipeError), subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            env={**os.environ, **threads},
            start_new_session=True,  # Ctrl-C is for the grid, which then stops its workers
        ) as process:  # fmt: skip
            self.running.add(process)
            if self.stopping.is_set():  # `stop` may have missed it
                process.terminate()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(pickle.dumps(job))
            process.stdin.close()
            with suppress(EOFError, pickle.UnpicklingError):  # what a killed process wrote last may be torn
                while True:
                    event = pickle.load(process.stdout)
                    kind = event.kind
                    report(event)
        self.running.discard(process)
        return kind, process.returncode

    def stop(self) -> None:
        running = list(self.running)
        for process in running:
            process.terminate()  # all at once, so that they write their last checkpoints side by side
        for process in running:
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def serve() -> None:
    """Run the job of standard input: what a worker process does. At SIGTERM it writes a checkpoint.

    If the grid is gone, the next report of progress fails, which ends the worker.
    """
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints must not mix with the events
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *signal_and_frame: stopping.set())

    def report(event: Event) -> None:
        pickle.dump(event, out)
        out.flush()

    run_job(pickle.load(sys.stdin.buffer), report, stopping)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_engine(
    name: str = "auto", workers: int | None = None, *, device: str = "auto", sources: Sources | None = None,
    logs: Path = Path("logs"), ray_address: str | None = None, gpus: float | None = None,
) -> Engine:  # fmt: skip
    """The engine of a name; `auto` takes lanes on a GPU and processes on a CPU.

    `workers` is how many cells run at a time. On Ray the cluster decides that, by the share of a GPU that each cell
    gets (`gpus`).
    """
    if name not in ENGINES:
        raise ValueError(f"engine should be one of {', '.join(ENGINES)}, but got {name!r}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers should be at least 1, but got {workers}")
    if name == "ray":
        from puridiver.grid.on_ray import RayEngine

        return RayEngine(ray_address, gpus)
    chosen = choose_runtime(device).device
    if name == "lanes" or (name == "auto" and chosen.type == "cuda"):
        return LaneEngine(workers or LANES_ON_GPU, chosen, sources or Sources())
    return ProcessEngine(workers or cores(), logs)

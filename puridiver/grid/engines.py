"""How the cells of a grid run: the loop that all engines share, the running of one cell, and the engine of threads."""

from __future__ import annotations

import queue
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from puridiver.data.base import DataSource
from puridiver.runs.config import RunConfig
from puridiver.runs.experiment import Experiment, Silent
from puridiver.runs.resolve import file_options, load_source, source_name
from puridiver.runtime.capture import lane
from puridiver.runtime.device import choose_runtime

ENGINES = ("auto", "lanes", "processes", "ray")
LANES_ON_GPU = 8
ATTEMPTS = 3  # at a cell whose worker dies
SECONDS_BETWEEN_REPORTS = 0.5


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
        self.lock = threading.Lock()

    def of(self, config: RunConfig) -> DataSource:
        key = (source_name(config), config.data_root, file_options(config))
        with self.lock:
            if key not in self.loaded:
                self.loaded[key] = load_source(config)
            return self.loaded[key]


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


class Progress(Silent):
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


def run_job(job: Job, sources: Sources, report: Report, stopping: threading.Event) -> None:
    """Run one cell to its end, from its last checkpoint if there is one; report what goes wrong instead of raising."""
    progress = Progress(job.id, report, stopping)
    try:
        experiment = progress.experiment = Experiment(job.config, progress, sources.of(job.config))
        experiment.lanes = job.lanes
        report(Event("finished", job.id, experiment.run(job.folder, resume=True)))
    except KeyboardInterrupt:  # stopped; it has left a checkpoint
        return
    except Exception as error:
        report(failed(job, error))


def failed(job: Job, error: BaseException) -> Event:
    text = "".join(traceback.format_exception(error))
    return Event("failed", job.id, {"error": f"{type(error).__name__}: {error}", "traceback": text})


class LaneEngine(Engine):
    """Runs cells in threads of this process that share one GPU (or, slowly, a CPU) and the loaded data."""

    def __init__(self, workers: int, device: torch.device, sources: Sources) -> None:
        super().__init__(workers, lanes=workers)
        self.device, self.sources = device, sources

    def run_one(self, job: Job, report: Report) -> None:
        with lane(self.device):
            run_job(job, self.sources, report, self.stopping)


def make_engine(
    name: str = "auto", workers: int | None = None, *, device: str = "auto", sources: Sources | None = None,
    logs: Path = Path("logs"), ray_address: str | None = None, gpus: float | None = None,
) -> Engine:  # fmt: skip
    """The engine of a name; `auto` takes lanes on a GPU and processes on a CPU.

    `workers` is how many cells run at a time. On Ray the cluster decides that, by the share of a GPU that each cell
    gets (`gpus`).
    """
    from puridiver.grid.on_ray import RayEngine
    from puridiver.grid.processes import ProcessEngine, cores

    if name not in ENGINES:
        raise ValueError(f"engine should be one of {', '.join(ENGINES)}, but got {name!r}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers should be at least 1, but got {workers}")
    if name == "ray":
        return RayEngine(ray_address, gpus)
    chosen = choose_runtime(device).device
    if name == "lanes" or (name == "auto" and chosen.type == "cuda"):
        return LaneEngine(workers or LANES_ON_GPU, chosen, sources or Sources())
    return ProcessEngine(workers or cores(), logs)

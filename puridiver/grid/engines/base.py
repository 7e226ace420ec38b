"""What engines share: jobs, the events they report, and the running of one cell."""

from __future__ import annotations

import logging
import queue
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from puridiver.data.base import DataSource
from puridiver.errors import BusyError, DataError
from puridiver.runs.config import RunConfig
from puridiver.runs.experiment import Experiment
from puridiver.runs.resolve import file_options, load_source, source_name

logger = logging.getLogger(__name__)

ATTEMPTS = 3  # at a cell whose worker dies
SECONDS_BETWEEN_REPORTS = 0.5
SECONDS_FOR_FOLDER = 20.0  # how long a cell waits for a folder that the worker of a killed grid still holds


@dataclass(frozen=True)
class Job:
    """One run: its id, its config, the folder it writes to, and how many runs share the device."""

    id: str
    name: str
    config: RunConfig
    folder: Path
    lanes: int = 1


@dataclass(frozen=True)
class Event:
    """Something that happened to a job: "started", "advanced", "finished", "failed" or "lost" (it is tried again).

    A finished job has its summary in `detail`, a failed one `error` and `traceback`, a lost one `error`, one that
    advanced its `share` of the whole and a `text`.
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
        key = (source_name(config), config.data_root or "", file_options(config))
        with self.lock:
            if key not in self.loaded:
                self.loaded[key] = load_source(config)
            return self.loaded[key]


class Engine(ABC):
    """Runs jobs, `workers` at a time, and reports what happens to them."""

    workers: int = 1
    lanes: int = 1  # how many of the runs share a device

    def __init__(self) -> None:
        self.stopping = threading.Event()

    def run(self, jobs: Sequence[Job], report: Report) -> None:
        """Run all jobs. `report` is called in this thread; if it raises, the jobs that still run are stopped."""
        inbox: queue.Queue[Event | None] = queue.Queue()
        crew = threading.Thread(target=self._run_and_end, args=(jobs, inbox), name="grid engine")
        crew.start()
        try:
            while (event := inbox.get()) is not None:
                report(event)
        finally:
            self.stopping.set()
            self.stop()
            crew.join()

    def _run_and_end(self, jobs: Sequence[Job], inbox: queue.Queue[Event | None]) -> None:
        try:
            self.run_all(jobs, inbox.put)
        except Exception as error:  # what has not ended failed with the engine
            for job in jobs:
                inbox.put(failed(job, error))
        finally:
            inbox.put(None)

    @abstractmethod
    def run_all(self, jobs: Sequence[Job], report: Report) -> None:
        """Run all jobs, until `self.stopping` is set; `report` may be called from any thread."""

    def stop(self) -> None:  # noqa: B027
        """Stop whatever does not look at `self.stopping`."""


class Progress:
    """Reports the progress of a run, at most twice a second, and stops the run when the engine stops."""

    def __init__(self, id: str, report: Report, stopping: Callable[[], bool]) -> None:
        self.id, self.report, self.stopping = id, report, stopping
        self.experiment: Experiment | None = None
        self.total, self.done, self.last_report = 1, 0, 0.0

    def start(self, total: int) -> None:
        self.total = max(total, 1)

    def advance(self, amount: int, text: str) -> None:
        if self.stopping() and self.experiment is not None:
            self.experiment.stop()
        self.done += amount
        if time.monotonic() - self.last_report >= SECONDS_BETWEEN_REPORTS:
            self.last_report = time.monotonic()
            self.report(Event("advanced", self.id, {"share": min(self.done / self.total, 1.0), "text": text}))

    def event(self, event: dict[str, Any]) -> None: ...


def run_job(job: Job, sources: Sources, report: Report, stopping: Callable[[], bool] = lambda: False) -> None:
    """Run one cell to its end, from its last checkpoint if there is one; report what goes wrong instead of raising."""
    report(Event("started", job.id))
    deadline = time.monotonic() + SECONDS_FOR_FOLDER
    while True:
        progress = Progress(job.id, report, stopping)
        try:
            experiment = progress.experiment = Experiment(job.config, progress, sources.of(job.config))
            experiment.lanes = job.lanes
            return report(Event("finished", job.id, experiment.run(job.folder, resume=True)))
        except KeyboardInterrupt:  # stopped; it has left a checkpoint
            return None
        except BusyError as error:
            if stopping():
                return None
            if time.monotonic() >= deadline:
                return report(failed(job, error))
            time.sleep(0.2)
        except DataError as error:  # damaged checkpoints, or the remains of another run
            if not job.folder.is_dir():
                return report(failed(job, error))
            aside = job.folder.with_name(f"{job.folder.name}.aside-{time.time_ns()}")
            job.folder.rename(aside)
            logger.warning("%s was renamed to %s, and its cell starts afresh: %s", job.folder, aside.name, error)
        except Exception as error:
            return report(failed(job, error))


def failed(job: Job, error: BaseException) -> Event:
    text = "".join(traceback.format_exception(error))
    return Event("failed", job.id, {"error": f"{type(error).__name__}: {error}", "traceback": text})

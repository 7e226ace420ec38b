"""What engines share: jobs, the events they tell, a backlog with retries, and the running of one cell."""

from __future__ import annotations

import dataclasses
import itertools
import json
import logging
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from puridiver.data.base import DataSource
from puridiver.errors import BusyError, DataError
from puridiver.grid.plan import runtime_of
from puridiver.runs import folder as runs
from puridiver.runs.config import RunConfig
from puridiver.runs.experiment import Experiment
from puridiver.runtime.device import Runtime

logger = logging.getLogger(__name__)

PASSING = "passing"  # why a cell failed: something that may be over the next time
MOST_RETRIES = 2
SECONDS_BETWEEN_NEWS = 0.5
SECONDS_FOR_FOLDER, SECONDS_BETWEEN_LOOKS = 20.0, 0.2  # how long a cell waits for its folder


@dataclass(frozen=True)
class Job:
    """One cell to run: its identity, its config, and the folder it writes to."""

    key: str
    name: str
    config: RunConfig
    folder: Path
    lanes: int = 1

    def to_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "folder": str(self.folder)}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Job:
        fields = {**content, "config": RunConfig(**content["config"]), "folder": Path(content["folder"])}
        return cls(**fields)


@dataclass(frozen=True)
class Event:
    """Something that happened to a job: "started", "advanced", "finished", "failed" or "lost" (to be tried again).

    A finished job has its summary in `detail`; a failed one `error`, `traceback` and `errno`; one that advanced its
    `share` of the whole and a `text`; one that started may name the `worker`.
    """

    kind: str
    key: str
    detail: dict[str, Any] = field(default_factory=dict)


class Engine(ABC):
    """Runs jobs and tells what happens to them. Closing the generator `events` stops whatever still runs."""

    local = True  # its cells share this machine's disk, and so its caches

    def __init__(self) -> None:
        self.draining = False

    def drain(self) -> None:
        """Start no further jobs; those that run may finish."""
        self.draining = True

    def close(self) -> None:  # noqa: B027
        """Let go of what the engine holds beyond `events`."""

    def runtime(self, config: RunConfig) -> Runtime:
        """On what the engine would run a config."""
        return runtime_of(config)

    def sharing(self, config: RunConfig) -> int:
        """How many runs share the device with a run: one alone on a CPU, where each has its own cores."""
        return self.workers if self.runtime(config).device.type == "cuda" else 1

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many jobs run at a time."""

    @abstractmethod
    def events(self, jobs: Sequence[Job]) -> Generator[Event, None, None]:
        """Run the jobs; ends when every one has finished or failed, or when it was drained."""


class Backlog:
    """Jobs that wait, and how often each was lost with its worker."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.waiting = deque(jobs)
        self.losses: dict[str, int] = {}

    def lost(self, job: Job, reason: str) -> Event:
        """A worker died over the job: it is tried again, but not for ever."""
        self.losses[job.key] = self.losses.get(job.key, 0) + 1
        if self.losses[job.key] > MOST_RETRIES:
            error = f"its worker died {self.losses[job.key]} times; the last time: {reason}"
            return Event("failed", job.key, {"error": error, "traceback": reason, "errno": None})
        self.waiting.appendleft(job)
        return Event("lost", job.key, {"error": reason})


class News:
    """The progress of a run as events, not more than two a second; ends the run when it should stop."""

    def __init__(self, key: str, tell: Callable[[Event], None], stopping: Callable[[], bool]) -> None:
        self.key, self.tell, self.stopping = key, tell, stopping
        self.experiment: Experiment | None = None
        self.total, self.done, self.told = 1, 0, 0.0

    def start(self, total: int) -> None:
        self.total = max(total, 1)

    def advance(self, amount: int, text: str) -> None:
        if self.stopping() and self.experiment is not None:
            self.experiment.stop()
        self.done += amount
        if time.monotonic() - self.told >= SECONDS_BETWEEN_NEWS:
            self.told = time.monotonic()
            share = min(self.done / self.total, 1.0)
            self.tell(Event("advanced", self.key, {"share": share, "text": text}))

    def event(self, event: dict[str, Any]) -> None: ...


def run_job(
    job: Job,
    source: Callable[[RunConfig], DataSource],
    tell: Callable[[Event], None],
    stopping: Callable[[], bool] = lambda: False,
) -> None:
    """Run one cell to its end and tell how it went; whatever goes wrong is told, not raised."""
    try:
        if not _is_of(job):
            set_aside(job.folder, "it holds a run of other code or settings")
        try:
            summary = _run_once_free(job, source, tell, stopping)
        except BusyError:
            raise
        except DataError as error:  # nothing to go on from: damaged checkpoints, a damaged config
            if not job.folder.is_dir():
                raise
            set_aside(job.folder, str(error))
            summary = _run(job, source, tell, stopping)
    except KeyboardInterrupt:  # stopped; it has left a checkpoint
        return
    except Exception as error:
        tell(Event("failed", job.key, described(error)))
    else:
        tell(Event("finished", job.key, summary))


def _run_once_free(
    job: Job, source: Callable[[RunConfig], DataSource], tell: Callable[[Event], None], stopping: Callable[[], bool]
) -> dict[str, Any]:
    """Wait a while for the folder: a worker whose grid was killed holds it until it has noticed."""
    deadline = time.monotonic() + SECONDS_FOR_FOLDER
    while True:
        try:
            return _run(job, source, tell, stopping)
        except BusyError:
            if stopping():
                raise KeyboardInterrupt from None
            if time.monotonic() >= deadline:
                raise
            time.sleep(SECONDS_BETWEEN_LOOKS)


def _run(
    job: Job, source: Callable[[RunConfig], DataSource], tell: Callable[[Event], None], stopping: Callable[[], bool]
) -> dict[str, Any]:
    news = News(job.key, tell, stopping)
    experiment = news.experiment = Experiment(job.config, news, source(job.config))
    experiment.lanes = job.lanes
    return experiment.run(job.folder, resume=True)  # from the checkpoint that an earlier attempt may have left


def _is_of(job: Job) -> bool:
    """Whether a finished run in the job's folder, if there is one, is of the job."""
    summary = job.folder / runs.SUMMARY
    if not summary.exists():
        return True
    try:
        found = json.loads(summary.read_text())
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("cell") == job.key


def set_aside(folder: Path, reason: str) -> None:
    """Rename a cell's folder that cannot be used, so that the cell can start afresh; nothing of it is lost."""
    numbers = itertools.count(1)
    other = next(path for n in numbers if not (path := folder.with_name(f"{folder.name}.aside-{n}")).exists())
    folder.rename(other)
    logger.warning("%s was renamed %s, and the cell starts afresh: %s", folder, other.name, reason)


def described(error: BaseException) -> dict[str, Any]:
    """An error as a failed job tells it; the number of a system error also where another was raised from it."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    text = "".join(traceback.format_exception(error))
    message = f"{type(error).__name__}: {error}"
    found = {"error": message, "traceback": text, "errno": cause.errno if cause else None}
    return {**found, "reason": PASSING} if _may_pass(error) else found


def _may_pass(error: BaseException) -> bool:
    """Whether it may work another time: the folder was in use, or other runs had taken the GPU's memory."""
    return isinstance(error, BusyError | torch.OutOfMemoryError)

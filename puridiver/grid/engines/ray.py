"""Runs cells on a Ray cluster: an actor a worker, each with a share of a GPU and a group of lanes in it.

Where a worker sees the grid's folder (it is on the same machine, or the folder is on a shared disk) it runs a cell
there, as other engines do: if it dies, the next one goes on from the cell's checkpoint. Elsewhere a worker runs in a
folder of its own machine, and what the run leaves there comes back with the summary to the process that leads. So
nothing needs to be shared between the machines, but then a cell whose worker died starts anew on another one.
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
import uuid
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from puridiver.errors import DataError
from puridiver.files import write_atomically
from puridiver.grid.engines.base import MOST_RETRIES, Backlog, Engine, Event, Job, run_job, set_aside
from puridiver.grid.plan import Sources, runtime_of
from puridiver.plugins import ENVIRONMENT
from puridiver.runs import folder as runs
from puridiver.runs.config import RunConfig
from puridiver.runs.provenance import code_hash
from puridiver.runtime.device import Runtime
from puridiver.runtime.lanes import lane

RUN_FILES = (runs.CONFIG, runs.MANIFEST, runs.METRICS, runs.MEMORY, runs.SUMMARY)
POLL_SECONDS = 1.0
SIGN = ".cluster-"  # how the name begins of a file by which workers find out whether they see the grid's folder


def import_ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError as error:
        raise DataError("--engine ray needs Ray: pip install 'puridiver[ray]'") from error
    return ray


@contextmanager
def left_sign(folder: Path) -> Iterator[Path]:
    """A file that is there meanwhile, of a name that was never used: who sees it sees this very folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(f"{SIGN}*"):  # by a process that was killed
        left.unlink()
    sign = folder.absolute() / f"{SIGN}{uuid.uuid4()}"
    sign.touch()
    try:
        yield sign
    finally:
        sign.unlink(missing_ok=True)


def packed(folder: Path) -> dict[str, str]:
    """The files of a run as text, by their names; its plugins first and the summary, which marks its end, last."""
    plugins = sorted(path for path in (folder / runs.PLUGINS).rglob("*") if path.is_file())
    paths = [*plugins, *(path for name in RUN_FILES if (path := folder / name).exists())]
    return {path.relative_to(folder).as_posix(): base64.b64encode(path.read_bytes()).decode() for path in paths}


def unpack(files: dict[str, str], folder: Path) -> None:
    """Write the files of a run in their order."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / name, base64.b64decode(text))


class ClusterWorker:
    """What a Ray actor does. Everything goes in and out as JSON text."""

    def __init__(self) -> None:
        code_hash()  # before the first job: files may be edited while the worker waits
        self.sources = Sources()

    def ready(self) -> int:
        return os.getpid()

    def runtime(self, config: str) -> tuple[str, str, bool]:
        found = runtime_of(RunConfig(**json.loads(config)))
        return found.device.type, found.precision, found.graphs

    def run(self, job_text: str, sign: str) -> str:
        """The last event of a job, with the files its run left where the leading process does not see them."""
        job = Job.from_dict(json.loads(job_text))
        if Path(sign).exists():
            return _answer(self._last_event(job), None)
        with tempfile.TemporaryDirectory(prefix="puridiver-") as folder:
            last = self._last_event(replace(job, folder=Path(folder) / "run"))
            files = packed(Path(folder) / "run")
        return _answer(last, files)

    def _last_event(self, job: Job) -> Event:
        told = list[Event]()
        with lane(runtime_of(job.config).device):
            run_job(job, self.sources.of, told.append)
        return told[-1]


def _answer(event: Event, files: dict[str, str] | None) -> str:
    return runs.to_json({"kind": event.kind, "key": event.key, "detail": event.detail, "files": files})


class RayEngine(Engine):
    """`workers` actors with `lanes` runs at a time in each; a dead worker is replaced and its runs tried again."""

    local = False

    def __init__(
        self, address: str | None = None, actors: int | None = None, lanes: int = 1, gpus: float | None = None
    ) -> None:
        super().__init__()
        self.ray = import_ray()
        self.lanes = lanes
        self._own_cluster = not self.ray.is_initialized()
        if self._own_cluster:
            plugins = {name: os.environ[name] for name in (ENVIRONMENT,) if name in os.environ}
            self.ray.init(
                address=address or os.environ.get("RAY_ADDRESS"), log_to_driver=False, logging_level="error",
                runtime_env={"env_vars": plugins} if plugins else None,
            )  # fmt: skip
        has = self.ray.cluster_resources()
        self.gpus = gpus if gpus is not None else float(has.get("GPU", 0) > 0)
        if self.gpus > has.get("GPU", 0):
            raise DataError(f"a worker should have {self.gpus:g} GPUs, but the cluster has {has.get('GPU', 0):g}")
        self.actors = actors or max(1, int(has["GPU"] / self.gpus) if self.gpus else int(has.get("CPU", 1)))
        # lanes + 1 threads, so that a busy worker still answers.
        actor = self.ray.remote(num_cpus=1, num_gpus=self.gpus, max_concurrency=lanes + 1)
        self._actor = actor(ClusterWorker)
        self.crew: dict[Any, int | None] = {}  # worker -> its process, once it has answered
        self._arriving: dict[Any, Any] = {}  # what it will answer -> worker
        self._runtimes: dict[str, Runtime] = {}
        self._stillborn = 0

    @property
    def workers(self) -> int:
        return self.actors * self.lanes

    def sharing(self, config: RunConfig) -> int:
        """Lanes of a worker, times the workers that fit on one GPU."""
        return self.lanes * (int(1 / self.gpus) if 0 < self.gpus < 1 else 1)

    def runtime(self, config: RunConfig) -> Runtime:
        """As a worker finds it: the leading process may have no GPU."""
        asked = json.dumps({"device": config.device, "precision": config.precision, "graphs": config.graphs})
        if asked not in self._runtimes:
            if not self.crew:
                self._hire()
            kind, precision, graphs = self.ray.get(next(iter(self.crew)).runtime.remote(asked))
            self._runtimes[asked] = Runtime(torch.device(kind), precision, graphs)
        return self._runtimes[asked]

    def events(self, jobs: Sequence[Job]) -> Generator[Event, None, None]:
        folders, backlog = {job.key: job.folder for job in jobs}, Backlog(jobs)
        running: dict[Any, tuple[Any, Job]] = {}  # what will come back -> worker and job
        with ExitStack() as stack:
            sign = stack.enter_context(left_sign(jobs[0].folder.parent)) if jobs else Path()
            stack.callback(self.close)  # before the sign goes
            while len(self.crew) < min(self.actors, len(jobs)):
                self._hire()
            while running or (backlog.waiting and not self.draining):
                yield from self._distribute(backlog, running, sign)
                ready, _ = self.ray.wait([*running, *self._arriving], timeout=POLL_SECONDS)
                for reference in ready:
                    yield from self._collect(reference, running, backlog, folders)

    def _hire(self) -> None:
        worker = self._actor.remote()
        self.crew[worker] = None
        self._arriving[worker.ready.remote()] = worker

    def _distribute(self, backlog: Backlog, running: dict[Any, tuple[Any, Job]], sign: Path) -> Iterator[Event]:
        for worker, process in self.crew.items():
            if process is None:  # the cluster has no room for it yet
                continue
            busy = sum(other is worker for other, _ in running.values())
            while busy < self.lanes and backlog.waiting and not self.draining:
                job, busy = backlog.waiting.popleft(), busy + 1
                absolute = replace(job, folder=job.folder.absolute())  # a worker has its own working folder
                running[worker.run.remote(json.dumps(absolute.to_dict()), str(sign))] = (worker, job)
                yield Event("started", job.key, {"worker": process})

    def _collect(
        self, reference: Any, running: dict[Any, tuple[Any, Job]], backlog: Backlog, folders: dict[str, Path]
    ) -> Iterator[Event]:
        worker, job = running.pop(reference, (self._arriving.pop(reference, None), None))
        try:
            answer = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            self._replace(worker, error, had_started=job is not None)
            if job is not None:
                yield backlog.lost(job, f"the Ray worker was lost: {type(error).__name__}: {error}")
            return
        if job is None:
            self.crew[worker] = answer
        else:
            yield self._received(answer, folders)

    def _replace(self, worker: Any, error: Exception, had_started: bool) -> None:
        """Another worker for one that died; not for ever where they die at their start."""
        self._stillborn += not had_started
        if self._stillborn > MOST_RETRIES:
            raise DataError(f"no Ray worker starts; is puridiver installed on the cluster? {error}") from error
        if self.crew.pop(worker, 0) != 0 and not self.draining:  # several of its runs may report one death
            self._hire()

    def _received(self, answer: str, folders: dict[str, Path]) -> Event:
        content = json.loads(answer)
        files = content.pop("files")
        event, folder = Event(**content), folders[content["key"]]
        if files is None or event.detail.get("cell") != event.key:  # of other code or device: it will be refused
            return event
        try:
            if folder.exists():
                set_aside(folder, "a worker of the cluster has run the cell")
            unpack(files, folder)
        except OSError as error:
            return Event("failed", event.key, {"error": str(error), "traceback": "", "errno": error.errno})
        return event

    def close(self) -> None:
        for worker in self.crew:
            self.ray.kill(worker)
        self.crew, self._arriving = {}, {}
        if self._own_cluster:
            self.ray.shutdown()

"""Runs cells on a Ray cluster: one task for each cell. Ray retries a cell whose worker dies.

A task runs in a folder of its own machine and returns the files of its run, so that machines share nothing.
"""

from __future__ import annotations

import logging
import os
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from puridiver.errors import DataError
from puridiver.files import write_atomically
from puridiver.grid.engines import ATTEMPTS, Engine, Event, Job, Report, run_job
from puridiver.plugins import ENVIRONMENT
from puridiver.runs import folder as runs


def run_remotely(job: Job) -> tuple[Event, dict[str, bytes]]:
    """Run a cell on whatever machine this is: its last event, and the files of its run, the summary last."""
    events: list[Event] = []
    with tempfile.TemporaryDirectory(prefix="puridiver-") as folder:
        here = Path(folder) / "run"
        run_job(replace(job, folder=here), events.append, threading.Event())
        kept = sorted(here.rglob("*"), key=lambda path: path.name == runs.SUMMARY)
        files = {str(path.relative_to(here)): path.read_bytes() for path in kept if path.is_file()}
    return events[-1], files


class RayEngine(Engine):
    """As many tasks at a time as the cluster has room for; `gpus` is the share of a GPU that each gets."""

    def __init__(self, address: str | None = None, gpus: float | None = None) -> None:
        try:
            import ray
        except ModuleNotFoundError as error:
            raise DataError("--engine ray needs Ray: pip install 'puridiver[ray]'") from error
        self.ray: Any = ray
        self.own_cluster = not ray.is_initialized()
        if self.own_cluster:
            plugins = {name: os.environ[name] for name in (ENVIRONMENT,) if name in os.environ}
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR, runtime_env={"env_vars": plugins})
        has = {"CPU": 1.0, "GPU": 0.0, **ray.cluster_resources()}
        gpus = float(has["GPU"] > 0) if gpus is None else gpus
        if gpus > has["GPU"]:
            raise DataError(f"a run should have {gpus:g} GPUs, but the cluster has {has['GPU']:g}")
        self.task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=ATTEMPTS - 1)(run_remotely)
        super().__init__(int(has["GPU"] / gpus if gpus else has["CPU"]), lanes=int(1 / (gpus or 1)) or 1)

    def run(self, jobs: Sequence[Job], report: Report) -> None:
        try:
            super().run(jobs, report)
        finally:
            if self.own_cluster:
                self.ray.shutdown()

    def run_one(self, job: Job, report: Report) -> None:
        running = self.task.remote(job)
        while not self.ray.wait([running], timeout=1.0)[0]:
            if self.stopping.is_set():
                self.ray.cancel(running, force=True)
                return
        event, files = self.ray.get(running)
        for name, content in files.items():
            if name != runs.LOCK:
                (job.folder / name).parent.mkdir(parents=True, exist_ok=True)
                write_atomically(job.folder / name, content)
        report(event)

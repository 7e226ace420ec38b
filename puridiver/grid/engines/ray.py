"""Runs cells on a Ray cluster: one task for each cell. Ray retries a cell whose worker dies.

A task runs in a folder of its own machine and returns the files of its run, so that machines share nothing.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from puridiver.errors import DataError
from puridiver.files import write_atomically
from puridiver.grid.engines.base import ATTEMPTS, Engine, Event, Job, Report, Sources, failed, run_job
from puridiver.plugins import ENVIRONMENT
from puridiver.runs import folder as runs


def run_remotely(job: Job) -> tuple[Event, dict[str, bytes]]:
    """Run a cell on whatever machine this is: its last event, and the files of its run, the summary last."""
    events: list[Event] = []
    with tempfile.TemporaryDirectory(prefix="puridiver-") as folder:
        here = Path(folder) / "run"
        run_job(replace(job, folder=here), Sources(), events.append)
        kept = [path for path in here.rglob("*") if path.is_file() and path.name not in (runs.LOCK, runs.SUMMARY)]
        files = {path.relative_to(here).as_posix(): path.read_bytes() for path in [*kept, *here.glob(runs.SUMMARY)]}
    return events[-1], files


class RayEngine(Engine):
    """As many tasks at a time as the cluster has room for; `gpus` is the share of a GPU that each gets."""

    def __init__(self, address: str | None = None, gpus: float | None = None) -> None:
        super().__init__()
        try:
            import ray
        except ModuleNotFoundError as error:
            raise DataError("--engine ray needs Ray: pip install 'puridiver[ray]'") from error
        self.ray: Any = ray
        self.own_cluster = not ray.is_initialized()
        if self.own_cluster:
            environment = {name: os.environ[name] for name in (ENVIRONMENT,) if name in os.environ}
            ray.init(
                address=address or os.environ.get("RAY_ADDRESS"), log_to_driver=False, logging_level=logging.ERROR,
                runtime_env={"env_vars": environment} if environment else None,
            )  # fmt: skip
        has = ray.cluster_resources()
        self.gpus = float(has.get("GPU", 0) > 0) if gpus is None else gpus
        if self.gpus > has.get("GPU", 0):
            raise DataError(f"a run should have {self.gpus:g} GPUs, but the cluster has {has.get('GPU', 0):g}")
        self.workers = max(1, int(has["GPU"] / self.gpus if self.gpus else has.get("CPU", 1)))
        self.lanes = int(1 / self.gpus) if 0 < self.gpus < 1 else 1

    def run_all(self, jobs: Sequence[Job], report: Report) -> None:
        task = self.ray.remote(num_cpus=1, num_gpus=self.gpus, max_retries=ATTEMPTS - 1)(run_remotely)
        running = {task.remote(job): job for job in jobs}
        try:
            while running and not self.stopping.is_set():
                ready, _ = self.ray.wait(list(running), timeout=1.0)
                for reference in ready:
                    report(self._received(reference, running.pop(reference)))
        finally:
            for reference in running:
                self.ray.cancel(reference, force=True)
            if self.own_cluster:
                self.ray.shutdown()

    def _received(self, reference: Any, job: Job) -> Event:
        """The last event of a job; the files of its run go into its folder."""
        try:
            event, files = self.ray.get(reference)
            for name, content in files.items():
                (job.folder / name).parent.mkdir(parents=True, exist_ok=True)
                write_atomically(job.folder / name, content)
        except Exception as error:  # the worker died too often, or the disk is full
            return failed(job, error)
        return event

"""Runs cells as lanes: threads of this process that share one GPU (or, slowly, a CPU)."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Sequence
from functools import partial

import torch

from puridiver.grid.engines.base import Engine, Event, Job, described, run_job
from puridiver.grid.plan import Sources
from puridiver.runs.config import RunConfig
from puridiver.runtime.lanes import run_in_lanes


class LaneEngine(Engine):
    """`lanes` runs at a time on one device; the data is loaded once for all."""

    def __init__(self, lanes: int, device: torch.device, sources: Sources) -> None:
        super().__init__()
        self.lanes, self.device, self.sources = lanes, device, sources
        self._stopping = threading.Event()

    @property
    def workers(self) -> int:
        return self.lanes

    def sharing(self, config: RunConfig) -> int:
        return self.lanes

    def events(self, jobs: Sequence[Job]) -> Generator[Event, None, None]:
        inbox: queue.Queue[Event | None] = queue.Queue()
        crew = threading.Thread(target=self._run_all, args=(jobs, inbox), name="grid lanes")
        crew.start()
        try:
            while (event := inbox.get()) is not None:
                yield event
        finally:
            self._stopping.set()
            crew.join()

    def _run_all(self, jobs: Sequence[Job], inbox: queue.Queue[Event | None]) -> None:
        try:
            results = run_in_lanes([partial(self._run, job, inbox) for job in jobs], self.lanes, self.device)
            for job, result in zip(jobs, results, strict=True):
                if isinstance(result, BaseException):  # the lane itself failed: a job tells its own failures
                    inbox.put(Event("failed", job.key, described(result)))
        finally:
            inbox.put(None)

    def _run(self, job: Job, inbox: queue.Queue[Event | None]) -> None:
        if self.draining or self._stopping.is_set():
            return
        inbox.put(Event("started", job.key))
        run_job(job, self.sources.of, inbox.put, self._stopping.is_set)

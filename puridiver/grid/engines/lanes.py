"""Runs cells as lanes: threads of this process that share one GPU (or, slowly, a CPU)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from puridiver.grid.engines.base import Engine, Job, Report, Sources, failed, run_job
from puridiver.runtime.lanes import run_in_lanes


class LaneEngine(Engine):
    """`workers` runs at a time on one device; each data set is loaded once for all of them."""

    def __init__(self, workers: int, device: torch.device, sources: Sources) -> None:
        super().__init__()
        self.workers = self.lanes = workers
        self.device, self.sources = device, sources

    def run_all(self, jobs: Sequence[Job], report: Report) -> None:
        def run(job: Job) -> None:
            if not self.stopping.is_set():
                run_job(job, self.sources, report, self.stopping.is_set)

        results = run_in_lanes([partial(run, job) for job in jobs], self.workers, self.device)
        for job, result in zip(jobs, results, strict=True):
            if isinstance(result, BaseException):  # of the lane itself: a job reports its own failures
                report(failed(job, result))

"""Small grids, rows of ledgers and an engine for the tests of grids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from puridiver.grid.engines import Engine, Job, LaneEngine, Result
from puridiver.grid.run import GridRun
from puridiver.grid.spec import Column, Grid, Method

TINY = {
    "epochs": 1, "stream_limit": 16, "test_limit": 40, "diversity": False, "tasks": 2, "anytime_points": 1,
    "memory": 20, "device": "cpu",
}  # fmt: skip
RSV, GBS = Method("RSV", "rsv", "plain"), Method("GBS", "gbs", "plain")


def small_grid(methods: Sequence[Method] = (RSV, GBS), seeds: tuple[int, ...] = (1, 2), **changes: Any) -> Grid:
    """Two methods, one column, two seeds: a second of work."""
    column = Column("digits", "blurry-10", "sym-40", seeds, {**TINY, **changes})
    return Grid("small", "A small grid", tuple(methods), (column,))


def lane_engine(workers: int = 1) -> LaneEngine:
    return LaneEngine(workers, torch.device("cpu"))


def jobs_of(run: GridRun) -> list[Job]:
    return [run.job(id) for id in run.waiting()]


class ScriptedEngine(Engine):
    """Gives what a test says for each job, without running anything."""

    def __init__(self, result: Callable[[Job], Result]) -> None:
        super().__init__(1)
        self.result, self.jobs = result, list[Job]()

    def run_one(self, job: Job) -> Result:
        self.jobs.append(job)
        return self.result(job)


def finished(job: Job) -> Result:
    config = job.config
    return row(config.seed, 0.5, id=job.id, data=config.data, sampler=config.sampler)


def ledger_of(folder: Path) -> Path:
    return folder / "ledger.jsonl"


def row(seed: int = 1, accuracy: float = 0.5, **changes: Any) -> dict[str, Any]:
    """A row of a ledger: PuriDivER in Table 1 on CIFAR-10."""
    base: dict[str, Any] = {
        "id": f"{seed:016x}", "grid": "table1", "method": "PuriDivER", "column": "cifar10 sym-40", "seed": seed,
        "data": "cifar10", "stream": f"official:sym40:{seed}:shuffled", "stream_hash": "0" * 64, "noise": "sym",
        "noise_rate": 0.4, "stream_noise": 0.4, "options": {}, "consolidations": 1, "told_noise": False,
        "evaluated_on": "test", "shortened": False, "task_accuracy": [accuracy] * 5, "task_purity": [0.6] * 5,
        "versions": {}, "commit": None,
        "command": "puridiver run", "started": "2026-11-18T00:00:00+00:00",
        "sampler": "puridiver", "trainer": "puridiver", "recipe": "official", "memory": 500, "network": "resnet18",
        "epochs": 255, "precision": "bfloat16", "device": "a GPU", "last_accuracy": accuracy, "memory_purity": 0.6,
        "seconds": 4.0,
    }  # fmt: skip
    return {**base, **changes}

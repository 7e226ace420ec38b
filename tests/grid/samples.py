"""Small grids, hand-made ledger rows and engines for the tests of grids."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from puridiver.grid.cells import Cell, Column, Grid, Method, cells
from puridiver.grid.engines.base import Engine, Event, Job
from puridiver.grid.engines.lanes import LaneEngine
from puridiver.grid.plan import Planned, Sources, plan
from puridiver.recipes import default_changes
from puridiver.runs.experiment import Experiment

TINY = {
    "epochs": 1, "stream_limit": 16, "test_limit": 40, "diversity": False, "tasks": 2, "anytime_points": 1,
    "memory": 20, "device": "cpu",
}  # fmt: skip
RSV, GBS = Method("RSV", "rsv", "plain"), Method("GBS", "gbs", "plain")


def small_grid(methods: Sequence[Method] = (RSV, GBS), seeds: tuple[int, ...] = (1, 2), **changes: Any) -> Grid:
    """Two methods, one column, two seeds, a second of work."""
    column = Column("digits", "blurry-10", "sym-40", seeds, {**TINY, **changes})
    return Grid("small", "A small grid", tuple(methods), (column,))


def planned_cells(grid: Grid, **changes: Any) -> list[Planned]:
    return plan(cells(grid, changes), Sources())


def lane_engine(lanes: int = 1) -> LaneEngine:
    return LaneEngine(lanes, torch.device("cpu"), Sources())


def row(seed: int = 1, accuracy: float = 0.5, **changes: Any) -> dict[str, Any]:
    """A row of a ledger, of PuriDivER on CIFAR-10."""
    base: dict[str, Any] = {
        "cell": f"cell-{seed}", "config_hash": "config", "code_hash": "code", "stream_hash": f"stream-{seed}",
        "lanes": 1, "data": "cifar10", "stream": "blurry-10", "noise": "sym", "noise_rate": 0.4, "noise_map": None,
        "sampler": "puridiver", "trainer": "puridiver", "recipe": "puridiver", "options_changed": {}, "memory": 500,
        "default_changes": default_changes(),
        "network": "resnet18", "epochs": 255, "told_noise": False, "evaluated_on": "test", "shortened": False,
        "precision": "float32", "seed": seed, "last_accuracy": accuracy, "average_accuracy": 0.5,
        "memory_purity": 0.6, "seconds": 4.0, "task_accuracy": [0.5] * 5, "device": "a CPU",
    }  # fmt: skip
    return {**base, **changes}


class ScriptedEngine(Engine):
    """Tells events that a test wrote, and remembers whether it was drained and closed."""

    def __init__(self, script: Sequence[Event | type[BaseException]]) -> None:
        super().__init__()
        self.script, self.closed, self.jobs = script, False, list[Job]()

    @property
    def workers(self) -> int:
        return 1

    def events(self, jobs: Sequence[Job]) -> Generator[Event, None, None]:
        self.jobs = list(jobs)
        try:
            for step in self.script:
                if self.draining:
                    return
                if isinstance(step, type):
                    raise step
                yield step
        finally:
            self.closed = True


def result(planned: Planned, accuracy: float = 0.5) -> Event:
    """What a finished cell tells."""
    summary = row(planned.cell.config.seed, accuracy, **planned.identity.to_dict(), stream_hash=planned.stream_hash)
    return Event("finished", planned.key, summary)


def ledger_of(folder: Path) -> Path:
    return folder / "ledger.jsonl"


class Killer:
    """A watcher that kills the first worker of which it hears an event of some kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.workers: dict[str, int] = {}
        self.victims: list[int] = []
        self.events: list[Event] = []

    def begin(self, done: int, waiting: object, seconds: float | None) -> None: ...
    def note(self, text: str) -> None: ...

    def happened(self, event: Event, planned: Planned) -> None:
        self.events.append(event)
        if event.kind == "started":
            self.workers[event.key] = event.detail["worker"]
        if event.kind == self.kind and not self.victims:
            self.victims.append(self.workers[event.key])
            os.kill(self.victims[0], signal.SIGKILL)


def rows_of(
    grid: Grid, accuracy: Callable[[Cell], float] = lambda cell: 0.5, changes: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Rows as the grid's runs would leave them, with made-up figures: nothing is trained."""
    found = []
    for cell in cells(grid, changes):
        experiment = Experiment(cell.config)
        tasks = [0.5] * experiment.manifest.n_tasks
        found.append({**row(), **experiment._provenance(), "last_accuracy": accuracy(cell), "task_accuracy": tasks})
    return found


def without_hash(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows as versions before the hash of settings wrote them."""
    return [{name: value for name, value in found.items() if name != "settings_hash"} for found in rows]

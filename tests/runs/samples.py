"""A tiny digits run for the tests of runs, ways to leave it, and what two finished runs must have in common."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from puridiver import data
from puridiver.runs import Progress
from puridiver.runs.config import RunConfig
from puridiver.runs.experiment import Experiment
from tests.learner_samples import differing, tensors_of

DIGITS = data.load("digits")
# Two tasks of three batches and three memory epochs; each trainer comes past its warm-up, each sampler must evict.
OPTIONS: dict[str, Any] = {"batch_size": 16, "online_steps": 1}
METHOD_OPTIONS: dict[str, dict[str, Any]] = {
    "sampler ntd": {"ntd_views": 2},
    "sampler spr": {"spr_budget": 0.0005},
    "trainer coteaching": {"forget_epochs": 1},
    "trainer dividemix": {"baseline_warmup": 1},
    "trainer puridiver": {"warmup_epochs": 1, "smallest_set": 0},
    "trainer selfie": {"baseline_warmup": 1, "selfie_history": 2},
    "trainer spr": {"spr_budget": 0.0005},
}
TIMES = ("seconds", "phase_seconds", "started")


def tiny_config(**changes: Any) -> RunConfig:
    base = RunConfig(
        sampler="puridiver", trainer="puridiver", tasks=2, memory=20, network="small", epochs=3, device="cpu",
        diversity=False, anytime_points=2, stream_limit=44, test_limit=40,
    )  # fmt: skip
    config = dataclasses.replace(base, **changes)
    methods = (f"sampler {config.sampler}", f"trainer {config.trainer}")
    own = {name: value for method in methods for name, value in METHOD_OPTIONS.get(method, {}).items()}
    return dataclasses.replace(config, options={**OPTIONS, **own, **config.options})


def experiment(config: RunConfig, progress: Any = None) -> Experiment:
    return Experiment(config, progress, DIGITS)


def events_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def traces(folder: Path) -> dict[str, Any]:
    """What a finished run leaves in its folder, without the times."""
    summary = json.loads((folder / "summary.json").read_text())
    return {
        "metrics": (folder / "metrics.jsonl").read_bytes(),
        "manifest": (folder / "manifest.json").read_bytes(),
        "summary": {name: value for name, value in summary.items() if name not in TIMES},
        "files": sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock")),
    }


def finished(config: RunConfig, folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The traces and the learner of an uninterrupted run."""
    whole = experiment(config)
    whole.run(folder)
    return traces(folder), tensors_of(whole.learner)


class Crash(Exception):
    """Stands for a process that dies: nothing is saved on the way out."""


class Leaving(Progress):
    """Progress that ends a run at its n-th batch or epoch, counted from where this leg began."""

    def __init__(self, moves: int | None = None, crash: bool = False) -> None:
        self.moves, self.crash = moves, crash
        self.run: Experiment | None = None
        self.total = self.done = 0
        self.amounts: list[int] = []

    def start(self, total: int, done: int = 0) -> None:
        self.total, self.done, self.amounts = total, 0, [done]

    def advance(self, amount: int, text: str) -> None:
        self.done += 1
        self.amounts.append(amount)
        if self.done == self.moves:
            if self.crash:
                raise Crash
            assert self.run is not None
            self.run.stopping.set()


def leg(config: RunConfig, folder: Path, leaving: Leaving, **settings: Any) -> Experiment:
    """One process' part of a run, up to where it is left."""
    part = leaving.run = experiment(config, leaving)
    with pytest.raises(Crash if leaving.crash else KeyboardInterrupt):
        part.run(folder, resume=True, **{"checkpoint_every": 0, **settings})
    assert not (folder / "summary.json").exists()
    return part


def finish(config: RunConfig, folder: Path, **settings: Any) -> Experiment:
    last = experiment(config)
    last.run(folder, resume=True, **settings)
    return last


def assert_ends_alike_in_legs(config: RunConfig, folder: Path, legs: Sequence[Leaving]) -> None:
    """A run that is left and continued after each leg ends in the bits of one that is not."""
    expected, weights = finished(config, folder / "whole")
    for leaving in legs:
        leg(config, folder / "parts", leaving)
    last = finish(config, folder / "parts")
    assert differing(weights, tensors_of(last.learner)) == []
    assert traces(folder / "parts") == expected

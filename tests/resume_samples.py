"""A tiny digits run for the tests of resuming, and what two finished runs must have in common."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from torch import Tensor

from puridiver import data
from puridiver.runs.config import RunConfig
from puridiver.runs.experiment import Experiment
from tests.learner_samples import tensors_of

DIGITS = data.load("digits")
# Two tasks of three batches and three memory epochs; each trainer comes past its warm-up, each sampler must evict.
OPTIONS: dict[str, Any] = {
    "warmup_epochs": 1, "baseline_warmup": 1, "selfie_history": 2, "smallest_set": 0, "forget_epochs": 1,
    "ntd_views": 2, "batch_size": 16, "spr_budget": 0.0005,
}  # fmt: skip
TIMES = ("seconds", "phase_seconds", "started")


def tiny_config(**changes: Any) -> RunConfig:
    base = RunConfig(
        tasks=2, memory=20, network="small", epochs=3, device="cpu", diversity=False, anytime_points=2,
        stream_limit=44, test_limit=40, options=OPTIONS,
    )  # fmt: skip
    return dataclasses.replace(base, **changes)


def experiment(config: RunConfig, progress: Any = None) -> Experiment:
    return Experiment(config, progress, DIGITS)


def traces(folder: Path) -> dict[str, Any]:
    """What a finished run leaves in its folder, without the times."""
    summary = json.loads((folder / "summary.json").read_text())
    return {
        "metrics": (folder / "metrics.jsonl").read_bytes(),
        "manifest": (folder / "manifest.json").read_bytes(),
        "summary": {name: value for name, value in summary.items() if name not in TIMES},
        "files": sorted(path.name for path in folder.iterdir() if path.name != ".lock"),
    }


def finished(config: RunConfig, folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The traces and the learner of an uninterrupted run."""
    whole = experiment(config)
    whole.run(folder)
    return traces(folder), tensors_of(whole.learner)

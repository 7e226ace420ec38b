"""Made ledger rows as full runs on a GPU leave them: nothing is trained."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from puridiver.grid.cells import cells
from puridiver.grid.define import find_grid
from puridiver.recipes import recipe
from tests.grid.samples import row

MEASURED = {
    "recipe": "official", "precision": "bfloat16", "graphs": True, "device": "NVIDIA H200", "lanes": 8,
    "commit": "a" * 40, "versions": {"puridiver": "0.1.0", "torch": "2.11.0"}, "command": "puridiver run --seed 1",
}  # fmt: skip


def full_run(seed: int = 1, accuracy: float = 0.5, noise: str = "sym-40", **changes: Any) -> dict[str, Any]:
    """PuriDivER by the recipe `official` on a published CIFAR-10 stream."""
    kind, _, percent = noise.partition("-")
    where = {"stream": f"official:{kind}{percent}:{seed}:shuffled", "noise": kind, "noise_rate": int(percent) / 100}
    return row(seed, accuracy, **{**MEASURED, **where, **changes})


def runs_of(preset: str, accuracy: float = 0.5, changes: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """A run of every cell of a preset on CIFAR-10, each seed a point above the one before."""
    found = []
    for cell in cells(find_grid(preset, ["cifar10"], official=True), changes or {"recipe": "official"}):
        config = cell.config
        told = {
            "sampler": config.sampler, "trainer": config.trainer, "recipe": config.recipe, "memory": config.memory,
            "options_changed": dict(config.options), "told_noise": config.tell_noise, "noise_map": config.noise_map,
            "epochs": recipe(config.recipe, **config.options).epochs,
        }  # fmt: skip
        if config.stream == "disjoint":
            told["stream"] = "disjoint"
        found.append(full_run(config.seed, accuracy + config.seed / 100, cell.column.noise, **told))
    return found


def write_ledger(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in rows))
    return path

"""How the cells of a grid are run: threads on one GPU, processes on a CPU, or a Ray cluster. One file an engine."""

from __future__ import annotations

from pathlib import Path

from puridiver.grid.engines.base import Engine, Sources
from puridiver.grid.engines.lanes import LaneEngine
from puridiver.grid.engines.processes import ProcessEngine, cores
from puridiver.runtime.device import choose_runtime

LANES_ON_GPU = 8
ENGINES = ("auto", "lanes", "processes", "ray")


def make_engine(
    name: str = "auto", workers: int | None = None, *, device: str = "auto", sources: Sources | None = None,
    logs: Path = Path("logs"), ray_address: str | None = None, gpus: float | None = None,
) -> Engine:  # fmt: skip
    """The engine of a name. `auto` takes lanes on a GPU and processes on a CPU.

    `workers` is how many cells run at a time. On Ray the cluster decides that, by the share of a GPU that each cell
    gets (`gpus`).
    """
    if name not in ENGINES:
        raise ValueError(f"engine should be one of {', '.join(ENGINES)}, but got {name!r}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers should be at least 1, but got {workers}")
    if name == "ray":
        from puridiver.grid.engines.ray import RayEngine

        return RayEngine(ray_address, gpus)
    chosen = choose_runtime(device).device
    if name == "lanes" or (name == "auto" and chosen.type == "cuda"):
        return LaneEngine(workers or LANES_ON_GPU, chosen, sources or Sources())
    return ProcessEngine(workers or cores(), logs)

"""Which engine suits: lanes on a GPU, processes on a CPU, Ray where it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from puridiver.grid.engines.base import Engine
from puridiver.grid.engines.lanes import LaneEngine
from puridiver.grid.engines.processes import ProcessEngine, cores
from puridiver.grid.plan import Sources
from puridiver.runtime.device import choose_runtime

LANES_ON_GPU = 8
ENGINES = ("auto", "lanes", "processes", "ray")


@dataclass(frozen=True)
class Wishes:
    """What the user asked of the engine; None leaves it to what suits."""

    engine: str = "auto"
    lanes: int | None = None
    processes: int | None = None
    device: str = "auto"
    ray_address: str | None = None
    gpus_per_worker: float | None = None


def choose_engine(wishes: Wishes, n_jobs: int, logs: Path, sources: Sources) -> Engine:
    if wishes.engine not in ENGINES:
        raise ValueError(f"engine should be one of {', '.join(ENGINES)}, but got {wishes.engine!r}")
    for name in ("lanes", "processes"):
        value = getattr(wishes, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} should be at least 1, but got {value}")
    if wishes.engine == "ray":
        from puridiver.grid.engines.ray import RayEngine

        return RayEngine(wishes.ray_address, wishes.processes, wishes.lanes or 1, wishes.gpus_per_worker)
    device = choose_runtime(wishes.device).device
    suits = "lanes" if device.type == "cuda" else "processes"
    if (suits if wishes.engine == "auto" else wishes.engine) == "lanes":
        return LaneEngine(min(wishes.lanes or LANES_ON_GPU, max(n_jobs, 1)), device, sources)
    return ProcessEngine(max(1, min(wishes.processes or cores(), n_jobs)), logs)

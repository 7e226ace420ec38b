"""Measures how fast this machine learns: medians over repeats after a warm-up, never assertions."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from puridiver import data
from puridiver.config import RunConfig
from puridiver.data.base import DataSource
from puridiver.experiment import Experiment
from puridiver.lanes import run_in_lanes
from puridiver.learner import Learner
from puridiver.runtime import describe_device


@dataclass(frozen=True)
class Size:
    """A shape of problem to measure on."""

    name: str
    image_shape: tuple[int, int, int]
    n_classes: int
    memory: int
    network: str


SIZES = {
    "digits": Size("digits", (8, 8, 1), 10, 100, "small"),
    "cifar10": Size("cifar10", (32, 32, 3), 10, 500, "resnet18"),
    "cifar100": Size("cifar100", (32, 32, 3), 100, 2000, "resnet32"),
}


@dataclass(frozen=True)
class Figure:
    """One line of the table: the median of the repeats and their spread, in `unit`."""

    what: str
    median: float
    low: float
    high: float
    repeats: int
    unit: str = "ms"
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure(what: str, work: Callable[[], Any], device: torch.device, warmup: int = 5, repeats: int = 30) -> Figure:
    """Milliseconds of one call, waiting for the device each time."""

    def once() -> float:
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return 1e3 * (time.perf_counter() - start)

    for _ in range(warmup):
        once()
    times = sorted(once() for _ in range(repeats))
    return Figure(what, statistics.median(times), times[repeats // 10], times[-1 - repeats // 10], repeats)


def noise_images(size: Size, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Random images and labels: for timing, where only their shape matters."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, *size.image_shape), dtype=np.uint8), rng.integers(0, size.n_classes, n)


def filled_learner(size: Size, **settings: Any) -> Learner:
    """A learner whose memory is full."""
    learner = Learner(size.n_classes, size.image_shape, size.memory, network=size.network, **settings)
    images, labels = noise_images(size, size.memory)
    for start in range(0, size.memory, 500):
        learner.observe(images[start : start + 500], labels[start : start + 500])
    return learner


def online_step(size: Size, what: str, **settings: Any) -> Figure:
    """One 16-sample stream batch once the memory is full: train, score memory and batch, evict 16."""
    learner = filled_learner(size, replay="always", **settings)
    images, labels = noise_images(size, 16, seed=1)
    return measure(what, lambda: learner.observe(images, labels), learner.runtime.device)


def memory_epoch(size: Size, what: str, **settings: Any) -> Figure:
    """One epoch of memory training, the split included."""
    learner = filled_learner(size, warmup_epochs=0, **settings)
    epochs = learner.consolidation(200)
    return measure(what, lambda: next(epochs), learner.runtime.device, warmup=15, repeats=30)


def growth(size: Size, memories: Iterable[int], classes: Iterable[int], **settings: Any) -> list[Figure]:
    """The online step at growing memory and at growing number of classes."""
    found = [online_step(replace(size, memory=k), f"online step, K = {k:,}", **settings) for k in memories]
    return found + [online_step(replace(size, n_classes=c), f"online step, {c:,} classes", **settings) for c in classes]


def whole_runs(config: RunConfig, seeds: Iterable[int], lanes: int) -> tuple[Figure, list[dict[str, Any]]]:
    """Seconds a run of `lanes` runs at a time on one device, with the summaries of the runs."""
    seeds = list(seeds)
    start = time.perf_counter()
    experiments = [Experiment(replace(config, seed=seed)) for seed in seeds]
    device = experiments[0].learner.runtime.device
    results = run_in_lanes([experiment.run for experiment in experiments], lanes, device)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    seconds = (time.perf_counter() - start) / len(seeds)
    what = "one run, start to end" if lanes == 1 else f"a run, {lanes} at a time"
    summaries = [result for result in results if isinstance(result, dict)]
    return Figure(what, seconds, seconds, seconds, len(seeds), "s"), summaries


def synthetic_source(size: Size, n_train: int, n_test: int) -> DataSource:
    """Data of a size's shape, for timing a whole run where the real data is not at hand."""
    train, test = noise_images(size, n_train), noise_images(size, n_test, seed=1)
    return data.from_arrays(
        *train, *test, class_names=[str(c) for c in range(size.n_classes)], name=f"{size.name}-shaped"
    )


def peak_memory_gb(device: torch.device) -> float | None:
    return torch.cuda.max_memory_allocated(device) / 1e9 if device.type == "cuda" else None


def machine(device: torch.device) -> str:
    return describe_device(device)

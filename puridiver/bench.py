"""Measures how fast this machine learns: medians over repeats after a warm-up, never assertions."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from puridiver import data
from puridiver.data.base import DataSource
from puridiver.learner.learner import Learner
from puridiver.memory import Moment
from puridiver.memory.rainbow import RainbowMemory
from puridiver.memory.samples import joined
from puridiver.runs.config import RunConfig
from puridiver.runs.experiment import Experiment
from puridiver.runtime.device import choose_runtime
from puridiver.runtime.lanes import run_in_lanes


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
GROWING_MEMORIES = {"digits": (500, 2_000, 10_000), "cifar10": (500, 2_000, 10_000), "cifar100": (500, 2_000, 10_000)}
GROWING_CLASSES = (10, 100, 1_000)


ONLINE_STEP = "online step, PuriDivER sampler (16 samples)"
RM_UNCERTAINTY = "RM's uncertainty of memory and batch"
ONE_RUN = "one run, start to end"
GPU_MEMORY = "GPU memory held at the most"
# At the size of CIFAR-10 on an H200: what the released program takes, and what this project wants to reach.
REFERENCE = {
    ONLINE_STEP: ("380 to 510 ms", "6 ms"),
    RM_UNCERTAINTY: ("seconds", "25 ms"),
    ONE_RUN: ("8,600 s", "90 s"),
    "a run of 8, 8 at a time": ("8,600 s", "40 s"),
    GPU_MEMORY: ("4.5 GB", "3 GB"),
}


@dataclass(frozen=True)
class Figure:
    """One line of the table: the median of the repeats with the tenth and ninetieth of a hundred, in `unit`."""

    what: str
    median: float
    low: float
    high: float
    repeats: int
    unit: str = "ms"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure(what: str, work: Callable[[], Any], device: torch.device, warmup: int = 8, repeats: int = 30) -> Figure:
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
    return rng.integers(0, 256, (n, *size.image_shape), dtype=np.uint8), np.arange(n) % size.n_classes


def filled_learner(size: Size, **settings: Any) -> Learner:
    """A learner whose memory is full."""
    learner = Learner(size.n_classes, size.image_shape, size.memory, network=size.network, **settings)
    images, labels = noise_images(size, size.memory)
    for start in range(0, size.memory, 500):
        learner.observe(images[start : start + 500], labels[start : start + 500])
    return learner


def online_step(size: Size, what: str, repeats: int = 64, **settings: Any) -> Figure:
    """One 16-sample stream batch once the memory is full: train with replay, score memory and batch, evict 16.

    The repeats cover whole rounds of the replay stock, and the mean is taken over them, since one batch in 16 pays
    for the augmentation of all.
    """
    learner = filled_learner(size, replay="always", **settings)
    images, labels = noise_images(size, 16, seed=1)
    rounds = [16 * [None] for _ in range(repeats // 16)]

    def one_round() -> None:
        for _ in rounds[0]:
            learner.observe(images, labels)

    found = measure(what, one_round, learner.runtime.device, warmup=2, repeats=max(3, len(rounds)))
    return replace(found, median=found.median / 16, low=found.low / 16, high=found.high / 16)


def rm_uncertainty(size: Size, **settings: Any) -> Figure:
    """What RM asks of the network at every batch: its votes on 12 perturbed copies of memory and batch."""
    learner = filled_learner(size, **settings)
    samples, trainer, runtime = learner.memory.samples, learner.trainer, learner.runtime
    pool = joined(samples, samples.split(16)[0])
    moment = Moment(
        trainer, torch.ones(()), size.n_classes, learner.seen, torch.Generator(), trainer.strong_view, runtime,
        trainer.new_encoder,
    )  # fmt: skip
    sampler = RainbowMemory(learner.options)
    return measure(RM_UNCERTAINTY, lambda: sampler.uncertainty(pool, moment), runtime.device, repeats=20)


def memory_epoch(size: Size, what: str, **settings: Any) -> Figure:
    """One epoch of memory training, the split included."""
    learner = filled_learner(size, **{"warmup_epochs": 0, **settings})
    epochs = learner.consolidation(60, warn_if_left=False)
    return measure(what, lambda: next(epochs), learner.runtime.device, warmup=20, repeats=30)


def steps(size: Size, **settings: Any) -> list[Figure]:
    """The parts of a run."""
    return [
        online_step(size, ONLINE_STEP, **settings),
        online_step(size, "online step, RM sampler (16 samples)", sampler="rm", **settings),
        rm_uncertainty(size, **settings),
        memory_epoch(size, "memory epoch, PuriDivER trainer", **settings),
    ]


def growth(size: Size, **settings: Any) -> list[Figure]:
    """The online step at growing memory and at growing number of classes."""
    memories = [
        online_step(replace(size, memory=k), f"online step, K = {k:,}", **settings) for k in GROWING_MEMORIES[size.name]
    ]
    classes = [
        online_step(replace(size, n_classes=c), f"online step, {c:,} classes", **settings) for c in GROWING_CLASSES
    ]
    return memories + classes


def whole_runs(
    configs: Sequence[RunConfig],
    lanes: int,
    source: DataSource | None = None,
    on_finish: Callable[[dict[str, Any]], None] = lambda summary: None,
) -> Figure:
    """Seconds a run of `lanes` runs at a time, start to end, loading data and capturing steps included."""

    def job(config: RunConfig) -> dict[str, Any]:
        experiment = Experiment(config, source=source)
        experiment.lanes = lanes
        summary = experiment.run()
        on_finish(summary)
        return summary

    start = time.perf_counter()
    device = choose_runtime(configs[0].device).device
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    results = run_in_lanes([partial(job, config) for config in configs], lanes, device)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    seconds = (time.perf_counter() - start) / len(configs)
    what = ONE_RUN if lanes == 1 else f"a run of {len(configs)}, {lanes} at a time"
    return Figure(what, seconds, seconds, seconds, len(configs), "s")


def synthetic_source(size: Size, n_train: int = 50_000, n_test: int = 10_000) -> DataSource:
    """Data of a size's shape, for timing a whole run where the real data is not at hand."""
    train, test = noise_images(size, n_train), noise_images(size, n_test, seed=1)
    names = [str(c) for c in range(size.n_classes)]
    return data.from_arrays(*train, *test, class_names=names, name=f"{size.name}-shaped noise")


def peak_memory(device: torch.device) -> Iterable[Figure]:
    """GPU memory held at the most since the last whole run began, if there is a GPU."""
    if device.type != "cuda":
        return []
    gigabytes = torch.cuda.max_memory_reserved(device) / 1e9
    return [Figure(GPU_MEMORY, gigabytes, gigabytes, gigabytes, 1, "GB")]

"""Measure how fast this machine learns: medians after a warm-up, never assertions.

    python tools/bench.py                                    # the parts of a run, at the size that suits the machine
    python tools/bench.py --size cifar10 --parts steps growth --out experiments/speed
    python tools/bench.py --size cifar10 --parts run lanes --workers 8 --data-root DATA --splits SPLITS
    OMP_NUM_THREADS=1 python tools/bench.py --size grey28 --recipe puridiver --parts start single   # CPU time

Without --data-root whole runs train on noise of the data's shape.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from puridiver import Learner, RunConfig, data
from puridiver.runs.experiment import Experiment
from puridiver.runs.resolve import commit, versions
from puridiver.runtime.capture import lane
from puridiver.runtime.device import choose_runtime, describe_device


@dataclass(frozen=True)
class Size:
    """A shape of problem to measure on."""

    name: str
    input_shape: tuple[int, int, int]
    classes: int
    memory: int
    network: str


SIZES = {
    "digits": Size("digits", (8, 8, 1), 10, 100, "small"),
    "grey28": Size("grey28", (28, 28, 1), 10, 500, "convnet"),
    "colour32": Size("colour32", (32, 32, 3), 10, 500, "convnet"),
    "cifar10": Size("cifar10", (32, 32, 3), 10, 500, "resnet18"),
    "cifar100": Size("cifar100", (32, 32, 3), 100, 2000, "resnet32"),
}


@dataclass(frozen=True)
class Figure:
    """One measurement: the median of the repeats, with the tenth and the ninetieth percentile."""

    what: str
    median: float
    low: float
    high: float
    repeats: int
    unit: str = "ms"
    highest: float = 0.0  # the 99th percentile

    def line(self) -> str:
        spread = f"{self.low:.2f} to {self.high:.2f}, {self.repeats} repeats"
        return f"{self.what:<55} {self.median:10.2f} {self.unit}  ({spread})"


def measure(
    what: str, work: Callable[[], Any], warmup: int = 8, repeats: int = 30, calls: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Figure:  # fmt: skip
    """Milliseconds of one of the `calls` that `work` makes, waiting for the device each time."""

    def once() -> float:
        start = clock()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return 1e3 * (clock() - start) / calls

    for _ in range(warmup):
        once()
    times = sorted(once() for _ in range(repeats))
    return Figure(what, statistics.median(times), times[repeats // 10], times[-1 - repeats // 10], repeats,
                  highest=times[-1 - repeats // 100])  # fmt: skip


def noise(size: Size, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Random images and labels: only their shape matters for timing."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, *size.input_shape), dtype=np.uint8), np.arange(n) % size.classes


def filled_learner(size: Size, **settings: Any) -> Learner:
    """A learner with a full memory."""
    learner = Learner(size.classes, size.input_shape, size.memory, network=size.network, **settings)
    images, labels = noise(size, size.memory)
    for start in range(0, size.memory, 500):
        learner.observe(images[start : start + 500], labels[start : start + 500])
    return learner


def online_step(size: Size, what: str, **settings: Any) -> Figure:
    """A stream batch of 16 with a full memory: train with replay, score memory and batch, evict 16.

    A repeat is 16 batches: one of them pays for the augmentation of all.
    """
    learner = filled_learner(size, replay="always", **settings)
    images, labels = noise(size, 16, seed=1)

    def sixteen() -> None:
        for _ in range(16):
            learner.observe(images, labels)

    return measure(what, sixteen, warmup=2, repeats=4, calls=16)


def memory_epoch(size: Size, **settings: Any) -> Figure:
    """One epoch of memory training, the split included."""
    methods = {"sampler": "puridiver", "trainer": "puridiver", "warmup_epochs": 0}
    learner = filled_learner(size, **{**methods, **settings})
    epochs = learner.consolidation(60)
    return measure("memory epoch, PuriDivER trainer", lambda: next(epochs), warmup=20)


def predict_while_training(size: Size, args: argparse.Namespace) -> list[Figure]:
    """Predictions of 16 images from one thread while another consolidates; then their 99th percentile."""
    learner, (images, _) = filled_learner(size, **settings_of(args)), noise(size, 16, seed=1)
    learner.consolidate(epochs=7)
    stopping = threading.Event()

    def train() -> None:
        for _ in learner.consolidation(1000):
            if stopping.is_set():
                return

    training = threading.Thread(target=train)
    training.start()
    found = measure("predict 16 images while a consolidation runs", lambda: learner.predict(images), repeats=500)
    stopping.set()
    training.join()
    return [found, replace(found, what="... its 99th percentile", median=found.highest)]


def steps(size: Size, args: argparse.Namespace) -> list[Figure]:
    """The online step with two samplers, and an epoch of memory training."""
    settings = settings_of(args)
    return [
        online_step(size, "online step, the recipe's methods (16 samples)", **settings),
        online_step(size, "online step, RM sampler (16 samples)", sampler="rm", **settings),
        memory_epoch(size, **settings),
    ]


def digits_program(size: Size, args: argparse.Namespace) -> list[Figure]:
    """CPU time of `puridiver run` from the start of Python to its end."""

    def cpu_time() -> float:
        now = os.times()
        return now.children_user + now.children_system

    def program() -> None:
        subprocess.run([sys.executable, "-m", "puridiver", "run", "--quiet"], check=True, stdout=subprocess.DEVNULL)

    return [measure("puridiver run on digits, start to end, CPU time", program, 1, 10, clock=cpu_time)]


def one_by_one(size: Size, args: argparse.Namespace) -> list[Figure]:
    """CPU time of `observe` for an image alone, and for an image of a batch of 16; then how many times as much."""
    learner, (images, labels) = filled_learner(size, **settings_of(args)), noise(size, 128, seed=1)

    def figure(what: str, n: int) -> Figure:
        def observe() -> None:
            for x, y in zip(np.split(images, 128 // n), np.split(labels, 128 // n), strict=True):
                learner.observe(x, y)

        return measure(what, observe, warmup=2, repeats=20, calls=128, clock=time.process_time)

    alone, shared = figure("observe one image, CPU time", 1), figure("observe 16 images, CPU time an image", 16)
    ratio = alone.median / shared.median
    return [alone, shared, Figure("one image alone, in images of 16", ratio, ratio, ratio, 1, "times")]


def growth(size: Size, args: argparse.Namespace) -> list[Figure]:
    """The online step as the memory grows, and as the number of classes grows."""
    settings = settings_of(args)
    sizes = {f"K = {k:,}": replace(size, memory=k) for k in (500, 2_000, 10_000)}
    sizes |= {f"{c:,} classes": replace(size, classes=c) for c in (10, 100, 1_000)}
    return [online_step(each, f"online step, {name}", **settings) for name, each in sizes.items()]


def whole_runs(size: Size, args: argparse.Namespace, workers: int) -> list[Figure]:
    """Seconds a run, start to end, with `workers` at a time as lanes."""
    root = Path(args.data_root) if args.data_root else None
    source = data.load(size.name, root) if size.name == "digits" or root else noise_source(size)
    configs = [
        RunConfig(
            data=size.name, data_root=args.data_root, splits=args.splits, recipe=args.recipe, seed=1 + number,
            stream=f"official:sym40:{1 + number % 3}" if args.splits else "blurry-10", memory=size.memory,
            network=size.network, epochs=args.epochs, diversity=False, device=args.device, precision=args.precision,
        )
        for number in range(workers)
    ]  # fmt: skip
    device = choose_runtime(args.device).device

    def run(config: RunConfig) -> None:
        with lane(device):
            Experiment(config, source=source).run()

    start = time.perf_counter()
    with ThreadPoolExecutor(workers) as threads:
        list(threads.map(run, configs))
    seconds = (time.perf_counter() - start) / workers
    found = [Figure(f"a run, {workers} at a time", seconds, seconds, seconds, workers, "s")]
    if device.type == "cuda":
        held = torch.cuda.max_memory_reserved(device) / 1e9
        found.append(Figure("GPU memory held at most", held, held, held, 1, "GB"))
    return found


def noise_source(size: Size) -> data.DataSource:
    names = [str(c) for c in range(size.classes)]
    name = f"{size.name}-shaped noise"
    return data.from_arrays(*noise(size, 50_000), *noise(size, 10_000, seed=1), class_names=names, name=name)


PARTS: dict[str, Callable[[Size, argparse.Namespace], list[Figure]]] = {
    "steps": steps,
    "start": digits_program,
    "single": one_by_one,
    "growth": growth,
    "run": lambda size, args: whole_runs(size, args, 1),
    "predict": predict_while_training,
    "lanes": lambda size, args: whole_runs(size, args, args.workers),
}


def write_record(out: str, record: dict[str, Any]) -> Path:
    """Write it to OUT/<date>-<device>/<size>-<time>.json."""
    now = datetime.now(UTC)
    folder = Path(out) / f"{now:%Y-%m-%d}-{re.sub(r'[^a-z0-9]+', '-', record['device'].lower()).strip('-')}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record['size']}-{now:%H%M%S}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path


def settings_of(args: argparse.Namespace) -> dict[str, Any]:
    return {"recipe": args.recipe, "device": args.device, "precision": args.precision}


def parsed(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=("auto", *SIZES), default="auto", help="cifar10 on a GPU, digits on a CPU")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=["steps"])
    parser.add_argument("--workers", type=int, default=8, help="runs at a time, for lanes (default: 8)")
    parser.add_argument("--data-root", help="whole runs on the real data, found here")
    parser.add_argument("--splits", help="... and on the published sym-40 streams, found here")
    parser.add_argument("--recipe", default="official", help="(default: official)")
    parser.add_argument("--epochs", type=int, help="memory epochs of whole runs (default: the recipe's)")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--out", help="write a record to FOLDER/<date>-<device>/")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    args = parsed(words)
    runtime = choose_runtime(args.device, args.precision)
    size = SIZES[("cifar10" if runtime.device.type == "cuda" else "digits") if args.size == "auto" else args.size]
    figures = [figure for part in args.parts for figure in PARTS[part](size, args)]
    device = describe_device(runtime.device)
    print(f"size of {size.name}, recipe {args.recipe}, {device}, {runtime.precision}")
    for f in figures:
        print(f.line())
    if args.out:
        print(write_record(args.out, {
            "size": size.name, "recipe": args.recipe, "device": device, "precision": runtime.precision,
            "parts": args.parts, "versions": versions(), "commit": commit(), "figures": [vars(f) for f in figures],
        }))  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())

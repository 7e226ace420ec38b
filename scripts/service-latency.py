"""How long a learner's calls take on this machine, the small network on one thread (docs/SERVICE.md).

    python scripts/service-latency.py

Prints a Markdown table of medians in milliseconds: a batch of 16 observed, one image and 16 predicted, and one epoch on
a memory of 100. Images are random. About two minutes on one CPU core, most of it at 224 px.
"""

import time
from collections.abc import Callable

import numpy as np
import torch

from puridiver import Learner

SHAPES = ((8, 8, 1), (32, 32, 3), (224, 224, 3))
BATCH, MEMORY = 16, 100


def main() -> None:
    torch.set_num_threads(1)
    print("| images | observe 16 | predict 1 | predict 16 | an epoch on 100 |\n|---|---|---|---|---|")
    for shape in SHAPES:
        cells = (f"{milliseconds:,.1f} ms" for milliseconds in timed(shape))
        print(f"| {'x'.join(map(str, shape))} | {' | '.join(cells)} |", flush=True)


def timed(shape: tuple[int, int, int]) -> list[float]:
    draws, times = np.random.default_rng(0), 10 if shape[0] < 100 else 2
    images = draws.integers(256, size=(MEMORY, *shape), dtype=np.uint8)
    labels = np.arange(MEMORY) % 10
    learner = Learner(10, shape, MEMORY, network="small", device="cpu")
    for start in range(0, MEMORY, BATCH):
        learner.observe(images[start : start + BATCH], labels[start : start + BATCH])
    found = [
        median(lambda: learner.observe(images[:BATCH], labels[:BATCH]), times),
        median(lambda: learner.predict(images[:1]), times),
        median(lambda: learner.predict(images[:BATCH]), times),
    ]
    epochs = learner.consolidation(1 + times, warn_if_left=False)
    next(epochs)  # the first also makes what the others use
    return [*found, median(lambda: next(epochs), times)]


def median(call: Callable[[], object], times: int) -> float:
    """Of so many calls, in milliseconds."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        found.append(1000 * (time.perf_counter() - start))
    return float(np.median(found))


if __name__ == "__main__":
    main()

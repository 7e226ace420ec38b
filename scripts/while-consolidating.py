"""What a learner predicts while it trains on its memory, on digits' validation images: as it serves, and as it is.

    python scripts/while-consolidating.py [SEED ...]

Of each task's memory training but the first the mean over its epochs and the lowest epoch, in percent: of what
`Learner.predict` says, of the network as it is, and for comparison of the state before and after. Then the network as
it is at the lows of the rate, after 1, 3, 7, 15 and 31 epochs.
"""

from __future__ import annotations

import sys

import numpy as np
import torch

from puridiver.runs.config import RunConfig
from puridiver.runs.experiment import Experiment

LOWS = (1, 3, 7, 15, 31)
HEADINGS = ("before", "serves", "lowest", "as it is", "lowest", "after", *(f"low {low}" for low in LOWS))


def accuracy(experiment: Experiment, as_it_is: bool = False) -> float:
    images, labels, _ = experiment.evaluation_set
    found = experiment.learner.predict_proba(images, as_it_is).argmax(axis=1)
    return 100 * float((found == labels.numpy()).mean())


def of_seed(seed: int, noise: str) -> list[list[float]]:
    """A line a task, but the first."""
    config = RunConfig(data="digits", noise=noise, seed=seed, holdout=300, evaluate_on="validation")
    experiment = Experiment(config)
    learner, lines = experiment.learner, []
    for task in range(experiment.stream.n_tasks):
        for batch in experiment.stream.batches(learner.options.batch_size, task):
            learner.observe(batch.images, batch.labels)
        before = accuracy(experiment)
        epochs = [(accuracy(experiment), accuracy(experiment, as_it_is=True)) for _ in learner.consolidation()]
        serves, as_it_is = zip(*epochs, strict=True)
        lows = [as_it_is[low - 1] for low in LOWS]
        line = [before, np.mean(serves), min(serves), np.mean(as_it_is), min(as_it_is), accuracy(experiment), *lows]
        if task:
            lines.append(line)
    return lines


def main() -> None:
    torch.set_num_threads(1)
    seeds = [int(word) for word in sys.argv[1:]] or [11, 12, 13, 14, 15]
    for noise in ("sym-20", "sym-40", "asym-40"):
        mean = np.mean([of_seed(seed, noise) for seed in seeds], axis=0)
        print(f"digits, {noise}, seeds {' '.join(map(str, seeds))}")
        print("task  " + "  ".join(f"{heading:>8}" for heading in HEADINGS))
        for task, line in [*enumerate(mean, start=2), ("all", mean.mean(axis=0))]:
            print(f"{task!s:>4}  " + "  ".join(f"{value:8.1f}" for value in line))


if __name__ == "__main__":
    main()

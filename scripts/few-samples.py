"""How a class is recognised of which the memory had two samples when it was trained (docs/LOG.md).

    python scripts/few-samples.py

Digits 0 to 7 stream in with two samples each of 8 and 9; the memory is trained; then mostly 8 and 9 stream in. Prints,
for each seed, the accuracy on test images of 8 and 9 and on all, as it was when one sample was enough for a class to
count as taught, with the rule of half a fair share, and by the network as it is. About 20 s on one CPU core.
"""

import numpy as np
import torch

from puridiver import Learner
from puridiver.data import load
from puridiver.trainers import looking

SEEDS = (0, 1, 2)
NEW, FEW, BATCH, WRONG = (8, 9), 2, 16, 0.3
ONE_SAMPLE = 1e-9  # of a fair share
FAIR_ENOUGH = looking.FAIR_ENOUGH


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'seed':5}{'':24}{'8 and 9':>9}{'all':>7}")
    for seed in SEEDS:
        for name, share, mode in (
            ("one sample is enough", ONE_SAMPLE, "consolidated"),
            ("half a fair share", FAIR_ENOUGH, "consolidated"),
            ("the network as it is", FAIR_ENOUGH, "network"),
        ):
            new, all_classes = accuracies(seed, share, mode)
            print(f"{seed:<5}{name:24}{new:8.1%}{all_classes:7.1%}", flush=True)


def accuracies(seed: int, share: float, mode: str) -> tuple[float, float]:
    """On test images of the new classes and of all, before the memory is trained again."""
    looking.FAIR_ENOUGH = share
    draws, source = np.random.default_rng(seed), load("digits")
    images, labels = source.train.images.numpy(), source.train.true_labels.numpy()
    learner = Learner(classes=10, image_shape=source.image_shape, memory=100, seed=seed, online_prediction=mode)
    of_class = [draws.permutation(np.flatnonzero(labels == c)) for c in range(10)]
    first = np.concatenate([rows[:60] if c not in NEW else rows[:FEW] for c, rows in enumerate(of_class)])
    then = np.concatenate([rows[60:70] if c not in NEW else rows[FEW:102] for c, rows in enumerate(of_class)])
    old = [c for c in range(10) if c not in NEW]
    observe(learner, images, with_wrong(labels, old, draws), draws.permutation(first))
    learner.consolidate()
    observe(learner, images, labels, draws.permutation(then))
    right = learner.predict(source.test.images.numpy()) == source.test.true_labels.numpy()
    return right[np.isin(source.test.true_labels.numpy(), NEW)].mean(), right.mean()


def with_wrong(labels: np.ndarray, classes: list[int], draws: np.random.Generator) -> np.ndarray:
    """Labels of which some of these classes are replaced by others of them."""
    wrong = np.isin(labels, classes) & (draws.random(len(labels)) < WRONG)
    return np.where(wrong, draws.choice(classes, len(labels)), labels)


def observe(learner: Learner, images: np.ndarray, labels: np.ndarray, rows: np.ndarray) -> None:
    for start in range(0, len(rows), BATCH):
        chosen = rows[start : start + BATCH]
        learner.observe(images[chosen], labels[chosen])


if __name__ == "__main__":
    main()

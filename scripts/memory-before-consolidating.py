"""How large a memory should be before a learner trains on it, on digits (docs/SERVICE.md).

    python scripts/memory-before-consolidating.py

The training images stream in once, all classes mixed or two at a time, some with a wrong label. Prints a Markdown
table: accuracy on the test images before the first consolidation and after 15, 31 and 63 epochs of it, mean ± standard
deviation over three seeds in percent. About three minutes on one CPU core.
"""

import copy

import numpy as np
import torch

from puridiver import Learner
from puridiver.data import load

SEEDS = (0, 1, 2)
MEMORIES, EPOCHS = (20, 50, 100, 200), (15, 31, 63)
STREAMS = (("mixed", 0.0), ("mixed", 0.3), ("two at a time", 0.3))  # how classes come, the share of wrong labels
BATCH = 16


def main() -> None:
    torch.set_num_threads(1)
    print(f"| classes come | labels wrong | memory | a class | before | {' | '.join(f'{n} epochs' for n in EPOCHS)} |")
    print("|---" * (5 + len(EPOCHS)) + "|")
    for classes_come, wrong in STREAMS:
        for memory in MEMORIES:
            found = 100 * np.array([accuracies(memory, classes_come == "mixed", wrong, seed) for seed in SEEDS])
            cells = [f"{m:.1f} ± {d:.1f}" for m, d in zip(found.mean(axis=0), found.std(axis=0, ddof=1), strict=True)]
            print(f"| {classes_come} | {wrong:.0%} | {memory} | {memory // 10} | {' | '.join(cells)} |", flush=True)


def accuracies(memory: int, mixed: bool, wrong: float, seed: int) -> list[float]:
    """Before the first consolidation, and after each number of epochs of it."""
    draws, source = np.random.default_rng(seed), load("digits")
    images, labels = source.train.images.numpy(), source.train.true_labels.numpy()
    others = (labels + draws.integers(1, 10, len(labels))) % 10
    given = np.where(draws.random(len(labels)) < wrong, others, labels)
    learner = Learner(classes=10, image_shape=source.image_shape, memory=memory, seed=seed)
    order = draws.permutation(len(labels))
    if not mixed:
        order = order[np.argsort(labels[order] // 2, kind="stable")]
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        learner.observe(images[rows], given[rows])
    trained = [copy.deepcopy(learner) for _ in EPOCHS]
    for each, epochs in zip(trained, EPOCHS, strict=True):
        each.consolidate(epochs)
    shown, true = source.test.images.numpy(), source.test.true_labels.numpy()
    return [float((each.predict(shown) == true).mean()) for each in (learner, *trained)]


if __name__ == "__main__":
    main()

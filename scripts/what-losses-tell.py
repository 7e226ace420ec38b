"""How well the losses of a memory's samples tell wrong labels from right ones, before and after memory training.

    python scripts/what-losses-tell.py                                  digits, seeds 11 to 15
    python scripts/what-losses-tell.py --seeds 11 --data cifar10 --data-root DATA --small    a quick look on a CPU

At the end of each task, and of the samples that the memory has then: the area under the ROC curve (0.5: nothing, 1:
all) of today's loss before and after the training on them, of the loss on arrival, and of today's with half of that,
each within its class as Eq. 2's z-scores are. The memory is one that the loss on arrival had no say in.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from torch import Tensor

from puridiver.config import RunConfig
from puridiver.experiment import Experiment

NEXT_TO_NOTHING = 1e-9  # a weight that has losses on arrival noted, and decides nothing
HEADINGS = ("before", "after", "arrival", "after and half of it")
NOISES = ("sym-20", "sym-40", "sym-60", "asym-20", "asym-40")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--data-root")
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13, 14, 15])
    parser.add_argument("--noises", nargs="+", default=NOISES)
    parser.add_argument("--small", action="store_true", help="the small network, 2,000 samples a task, 31 epochs")
    args = parser.parse_args()
    torch.set_num_threads(1)
    print("noise    " + "  ".join(f"{heading:>20}" for heading in HEADINGS))
    for noise in args.noises:
        lines = np.array([areas for seed in args.seeds for areas in of_run(config_of(args, noise, seed))])
        print(
            f"{noise:<7}  " + "  ".join(f"{area:20.3f}" for area in lines.mean(axis=0)) + f"  ({len(lines)} memories)"
        )


def config_of(args: argparse.Namespace, noise: str, seed: int) -> RunConfig:
    small = {"network": "small", "stream_limit": 2000, "epochs": 31} if args.small else {}
    holdout = 5000 if args.data == "cifar10" else 300
    return RunConfig(
        data=args.data, data_root=args.data_root, noise=noise, seed=seed, holdout=holdout, evaluate_on="validation",
        options={"arrival_weight": NEXT_TO_NOTHING}, **small,
    )  # fmt: skip


def of_run(config: RunConfig) -> Iterator[list[float]]:
    """The areas of each task's memory in which some labels are wrong."""
    experiment = Experiment(config)
    learner, stream = experiment.learner, experiment.stream
    limit = config.stream_limit or len(experiment.manifest)
    for task in range(stream.n_tasks):
        seen = 0
        for batch in stream.batches(learner.options.batch_size, task):
            if seen >= limit:
                break
            learner.observe(batch.images, batch.labels)
            seen += len(batch.labels)
        memory, before = learner.memory.samples, losses(learner)
        learner.consolidate()
        after, wrong = losses(learner), is_wrong(experiment, memory.arrivals)
        if wrong.any() and not wrong.all():
            judged = (before, after, memory.notes, after + 0.5 * memory.notes)
            yield [float(roc_auc_score(wrong, within_class(loss, memory.labels))) for loss in judged]


def losses(learner) -> Tensor:
    memory = learner.memory.samples
    logits = learner.trainer.outputs(memory.images).logits
    return F.cross_entropy(logits.float(), memory.labels, reduction="none")


def is_wrong(experiment: Experiment, arrivals: Tensor) -> np.ndarray:
    order = experiment.manifest.order[arrivals.numpy()]
    return experiment.manifest.labels[arrivals.numpy()] != experiment.source.train.true_labels[order].numpy()


def within_class(loss: Tensor, labels: Tensor) -> np.ndarray:
    found = torch.zeros_like(loss)
    for label in labels.unique():
        of_class = labels == label
        found[of_class] = (loss[of_class] - loss[of_class].mean()) / (loss[of_class].std(correction=0) + 1e-6)
    return found.numpy()


if __name__ == "__main__":
    main()

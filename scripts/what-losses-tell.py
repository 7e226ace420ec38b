"""What the loss on arrival adds to today's: how well each tells wrong labels of a memory, and of what comes.

    python scripts/what-losses-tell.py                                  digits, seeds 11 to 15
    python scripts/what-losses-tell.py --seeds 11 --data cifar10 --data-root DATA --small    a quick look on a CPU

First of the memory at the end of each task: the area under the ROC curve (0.5: nothing, 1: all) of today's loss before
and after the training on it, and of the loss on arrival, each within its class as Eq. 2's z-scores are. Then of every
eighth eviction from the second task on: among the pairs of one class, of an arriving sample with a right label and one
in the memory with a wrong one, the share in which the arriving one looks worse and would have to go first, by today's
loss and by today's with half the loss on arrival. The memory is one that the loss on arrival had no say in.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from torch import Tensor

from puridiver.learner.learner import Learner
from puridiver.memory.base import Moment
from puridiver.memory import Samples
from puridiver.runs.config import RunConfig
from puridiver.runs.experiment import Experiment

NEXT_TO_NOTHING = 1e-9  # a weight that has losses on arrival noted, and decides nothing
SMALL_TASK = 2_000  # samples
EVERY = 8
HEADINGS = ("before", "after", "arrival", "arriving looks worse", "with half of arrival")
NOISES = ("sym-20", "sym-40", "sym-60", "asym-20", "asym-40")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--data-root")
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13, 14, 15])
    parser.add_argument("--noises", nargs="+", default=NOISES)
    parser.add_argument("--epochs", type=int, help="memory epochs a task (default: what suits the data)")
    parser.add_argument("--small", action="store_true", help="the small network, 2,000 samples a task, 31 epochs")
    args = parser.parse_args()
    torch.set_num_threads(1)
    print("noise    " + "  ".join(f"{heading:>20}" for heading in HEADINGS))
    for noise in args.noises:
        looks = [Look(Experiment(config_of(args, noise, seed)), args.small) for seed in args.seeds]
        for look in looks:
            look.at_the_whole_stream()
        figures = [np.mean([line for look in looks for line in found(look)], axis=0) for found in (_areas, _shares)]
        print(f"{noise:<7}  " + "  ".join(f"{figure:20.3f}" for figure in np.concatenate(figures)), flush=True)


def config_of(args: argparse.Namespace, noise: str, seed: int) -> RunConfig:
    small = {"network": "small", "epochs": args.epochs or 31} if args.small else {"epochs": args.epochs}
    holdout = 5000 if args.data == "cifar10" else 300
    return RunConfig(
        data=args.data, data_root=args.data_root, noise=noise, seed=seed, holdout=holdout, evaluate_on="validation",
        options={"arrival_weight": NEXT_TO_NOTHING}, **small,
    )  # fmt: skip


def _areas(look: Look) -> list[list[float]]:
    return look.areas


def _shares(look: Look) -> list[list[float]]:
    return look.shares


@dataclass
class Look:
    """A run, and what is seen of its losses on the way."""

    experiment: Experiment
    small: bool
    areas: list[list[float]] = field(default_factory=list)
    shares: list[list[float]] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)  # in the stream, of each arrival

    def at_the_whole_stream(self) -> None:
        learner, stream = self.experiment.learner, self.experiment.stream
        for task in range(stream.n_tasks):
            if task == 1:
                self._watch_evictions(learner)
            for read in stream.batches_of(task, learner.options.batch_size, SMALL_TASK if self.small else None):
                batch = read()
                self.positions += batch.positions.tolist()
                learner.observe(batch.images, batch.labels)
            self._look_at_memory(learner)

    def _look_at_memory(self, learner: Learner) -> None:
        """Before and after the training on it."""
        memory, before = learner.memory.samples, memory_losses(learner)
        learner.consolidate()
        wrong = self._wrong(memory.arrivals)
        if wrong.any() and not wrong.all():
            judged = (before, memory_losses(learner), memory.notes)
            areas = [float(roc_auc_score(wrong.cpu(), within_class(loss, memory.labels).cpu())) for loss in judged]
            self.areas.append(areas)

    def _watch_evictions(self, learner: Learner) -> None:
        choose, calls = learner.sampler.choose, [0]

        def watched(pool: Samples, n_old: int, capacity: int, moment: Moment) -> Tensor:
            if calls[0] % EVERY == 0:
                self._look_at_pool(pool, n_old, moment)
            calls[0] += 1
            return choose(pool, n_old, capacity, moment)

        learner.sampler.choose = watched

    def _look_at_pool(self, pool: Samples, n_old: int, moment: Moment) -> None:
        today = F.cross_entropy(moment.network.outputs(pool.images)[1].float(), pool.labels, reduction="none")
        wrong, arriving = self._wrong(pool.arrivals), torch.arange(len(pool), device=today.device) >= n_old
        right_new, wrong_old = (arriving & ~wrong).nonzero()[:, 0], (~arriving & wrong).nonzero()[:, 0]
        of_one_class = pool.labels[right_new][:, None] == pool.labels[wrong_old]
        if of_one_class.any():
            losses = (today, today + 0.5 * pool.notes)
            worse = [loss[right_new][:, None] > loss[wrong_old] for loss in losses]
            self.shares.append([float(pairs[of_one_class].float().mean()) for pairs in worse])

    def _wrong(self, arrivals: Tensor) -> Tensor:
        places = np.array(self.positions)[arrivals.cpu().numpy()]
        manifest, true = self.experiment.manifest, self.experiment.source.train.true_labels
        wrong = manifest.labels[places] != true[manifest.order[places]].numpy()
        return torch.from_numpy(wrong).to(arrivals.device)


def memory_losses(learner: Learner) -> Tensor:
    memory = learner.memory.samples
    return F.cross_entropy(learner.trainer.outputs(memory.images).logits.float(), memory.labels, reduction="none")


def within_class(loss: Tensor, labels: Tensor) -> Tensor:
    found = torch.zeros_like(loss)
    for label in labels.unique():
        of_class = labels == label
        found[of_class] = (loss[of_class] - loss[of_class].mean()) / (loss[of_class].std(correction=0) + 1e-6)
    return found


if __name__ == "__main__":
    main()

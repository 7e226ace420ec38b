"""Early-learning regularisation (Liu et al., 2020): predictions should stay what they were before noise was learnt."""

import torch
from torch import Tensor

from puridiver.equations import soft_cross_entropy
from puridiver.memory import Samples
from puridiver.options import Option
from puridiver.trainers.base import Trainer

AVERAGES = "prediction_averages"  # of each memory sample, (N, C)
FLOOR = 1e-4  # probabilities are kept this far from 0 and 1, as its authors do


def moved_averages(averages: Tensor, p: Tensor, decay: float) -> Tensor:
    """t <- decay * t + (1 - decay) * p / sum p, (N, C)."""
    return decay * averages + (1 - decay) * p / p.sum(dim=1, keepdim=True)


def disagreement(p: Tensor, averages: Tensor) -> Tensor:
    """log(1 - <p, t>) of each sample, (N,): small where a prediction agrees with the average of those before."""
    return (1 - (p * averages).sum(dim=1)).log()


class EarlyLearning(Trainer):
    """Cross-entropy with a penalty on leaving the average of a sample's predictions in this consolidation.

    The averages are of predictions in the training pass itself, where CutMix has left the batch whole: the prediction
    for a mixed image is of two samples. CutMix mixes the averages as it mixes labels. Online, where nothing comes
    twice, there is no average, and the loss is cross-entropy.
    """

    name = "elr"
    title = "ELR"
    summary = "cross-entropy, held to the average of each sample's earlier predictions (not in the paper)"
    saved_buffers = (AVERAGES,)
    own_options = {
        "elr_weight": Option(3.0, "lambda, weight of the regularisation (3 for CIFAR-10)", low=0),
        "elr_decay": Option(0.7, "beta, decay of the average of predictions (0.7 for CIFAR-10)", low=0, high=0.9999),
    }

    def begin_consolidation(self, memory: Samples) -> None:
        """The memory and the network have changed since the last one: averages begin at 0."""
        self.buffers.put(AVERAGES, torch.zeros(len(memory), self.n_classes, device=self.runtime.device))

    def memory_epoch(self, memory: Samples, epoch: int) -> None:
        self.run_epoch(self._regularised_step, memory)

    def _regularised_step(self, row: Tensor, n: int) -> None:
        rows, cut, averages = row[:n], row[n:], self.buffers[AVERAGES]
        images, targets = self.mixed_batch(row, n)
        logits = self.models[0].logits(images)
        p = logits.softmax(dim=1).clamp(FLOOR, 1 - FLOOR)
        is_whole = self.augmentation.left_alone(cut)
        now = torch.where(is_whole, moved_averages(averages[rows], p.detach(), self.options.elr_decay), averages[rows])
        averages.index_copy_(0, rows, now)
        mixed = self.augmentation.share(now, cut)
        losses = soft_cross_entropy(logits, targets) + self.options.elr_weight * disagreement(p, mixed)
        self.models[0].step(losses.mean())

"""Generalised cross-entropy (Zhang and Sabuncu, 2018): between cross-entropy and the mean absolute error."""

import torch.nn.functional as F
from torch import Tensor

from puridiver.options import Option
from puridiver.trainers.plain import LossTrainer


def generalised_cross_entropy(logits: Tensor, targets: Tensor, q: float) -> Tensor:
    """(1 - p_y^q) / q of each sample, (N,); of a soft target the mean over its labels y.

    By way of log p, whose gradient is finite where p is 0.
    """
    of_each_label = (1 - (q * F.log_softmax(logits, dim=1)).exp()) / q  # (N, C)
    return (targets * of_each_label).sum(dim=1)


class GeneralisedCrossEntropy(LossTrainer):
    """Plain training by a loss whose gradient shrinks for labels that the network finds unlikely."""

    name = "gce"
    title = "GCE"
    summary = "plain training by generalised cross-entropy, which gives unlikely labels less weight (not in the paper)"
    own_options = {
        "gce_q": Option(0.7, "its power: towards 0 cross-entropy, 1 the mean absolute error", low=1e-3, high=1)
    }

    def sample_losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        return generalised_cross_entropy(logits, targets, self.options.gce_q)

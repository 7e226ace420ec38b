"""Symmetric cross-entropy (Wang et al., 2019): cross-entropy, and the same with label and prediction exchanged."""

from torch import Tensor

from puridiver.equations import soft_cross_entropy
from puridiver.options import Option
from puridiver.trainers.plain import LossTrainer


def reverse_cross_entropy(logits: Tensor, targets: Tensor, log_zero: float) -> Tensor:
    """-sum_c p_c log y_c with `log_zero` for log 0, (N,); of a soft target the mean over its labels.

    Of a one-hot label it is -log_zero * (1 - p_y), which is linear in the label.
    """
    return -log_zero * (1 - (targets * logits.softmax(dim=1)).sum(dim=1))


class SymmetricCrossEntropy(LossTrainer):
    """Plain training by cross-entropy with a small weight and its reverse, which bounds what a wrong label can do."""

    name = "sce"
    title = "SCE"
    summary = "plain training by symmetric cross-entropy: a reverse term bounds wrong labels (not in the paper)"
    own_options = {
        "sce_alpha": Option(0.1, "weight of cross-entropy (0.1 for CIFAR-10)", low=0),
        "sce_beta": Option(1.0, "weight of reverse cross-entropy (1 for CIFAR-10)", low=0),
        "sce_log_zero": Option(-4.0, "A, what log 0 counts as", high=-1e-3),
    }

    def sample_losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        forward = soft_cross_entropy(logits, targets)
        reverse = reverse_cross_entropy(logits, targets, self.options.sce_log_zero)
        return self.options.sce_alpha * forward + self.options.sce_beta * reverse

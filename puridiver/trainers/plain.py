"""Plain training: by cross-entropy on the given labels, or by another loss, robust or one's own."""

from abc import ABC, abstractmethod

from torch import Tensor

from puridiver.trainers.base import Trainer


class Plain(Trainer):
    """Believes every label. With a sampler alone this is the paper's baseline of that sampler."""

    name = "plain"
    title = "cross-entropy"
    summary = "cross-entropy on the given labels"


class LossTrainer(Trainer, ABC):
    """Trains as `plain` does (views, CutMix, batches, schedule, captured steps), by the loss that a subclass writes.

    Whatever differs in a comparison with `plain` is then the loss alone. Eq. 3, by which a sampler may go, is of
    cross-entropy all the same.
    """

    @abstractmethod
    def sample_losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss of each sample, (N,), from logits and targets, (N, C) each.

        Targets are shares of classes that sum to 1: one-hot, or mixed of two by CutMix. Nothing in it may read a value
        on the host (`.item()`, `if` of a tensor), so that steps can be captured.
        """

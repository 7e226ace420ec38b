"""A user's own loss: trained as `plain` in everything but the loss."""

from __future__ import annotations

import pytest
from torch import Tensor

import puridiver
from puridiver.equations import soft_cross_entropy
from puridiver.trainers import Trainer
from tests.learner_samples import differing, patterns, tensors_of, tiny_learner

pytestmark = pytest.mark.usefixtures("forgotten_plugins")

IMAGES, LABELS = patterns(40)
# All that plain training may do: mixed images, a rest of 12 = 8 + 4 rows, several online steps with replay.
EVERYTHING = {
    "cutmix": 0.7, "online_cutmix": 0.6, "last_batch": "trained", "online_steps": 2, "replay": "always", "epochs": 3,
}  # fmt: skip


class CrossEntropyAgain(puridiver.LossTrainer):
    """What `plain` does, by way of the hook."""

    name = "cross-entropy-again"

    def sample_losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        return soft_cross_entropy(logits, targets)


class ByHand(Trainer):
    """Plain epochs with steps of its own."""

    name = "by-hand"

    def memory_epoch(self, memory, epoch):
        self.run_epoch(self.own_step, memory)

    def own_step(self, row, n):
        images, targets = self.mixed_batch(row, n)
        self.models[0].step(soft_cross_entropy(self.models[0].logits(images), targets).mean())


class NothingOfItsOwn(Trainer):
    """Has what every trainer has."""

    name = "nothing-of-its-own"


def learnt(trainer: object) -> dict[str, Tensor]:
    learner = tiny_learner(sampler="puridiver", trainer=trainer, **EVERYTHING)
    for start in range(0, 40, 8):
        learner.observe(IMAGES[start : start + 8], LABELS[start : start + 8])
        if start == 16:
            learner.consolidate()
    return tensors_of(learner)


@pytest.mark.parametrize("trainer", [CrossEntropyAgain, ByHand, NothingOfItsOwn])
def test_by_cross_entropy_it_is_plain_training_to_the_bit(trainer) -> None:
    assert differing(learnt("plain"), learnt(trainer)) == []


def test_a_loss_that_is_not_one_of_each_sample_is_an_error() -> None:
    class Mean(puridiver.LossTrainer):
        """Forgets that it is asked for each."""

        name = "mean"

        def sample_losses(self, logits: Tensor, targets: Tensor) -> Tensor:
            return soft_cross_entropy(logits, targets).mean()

    learner = tiny_learner(sampler="rsv", trainer=Mean)
    with pytest.raises(ValueError, match="the loss of each sample"):
        learner.observe(IMAGES[:8], LABELS[:8])

"""Training by a loss of one's own: as `plain` in everything but the loss."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import puridiver
from puridiver import plugins
from puridiver.equations import soft_cross_entropy
from puridiver.trainers import Trainer
from tests.learner_samples import as_samples, differing, patterns, tensors_of, tiny_learner, tiny_trainer
from tests.trainers.test_training import train_logits

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


class Squares(puridiver.LossTrainer):
    """The Brier score."""

    name = "squares"

    def sample_losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        return (logits.softmax(dim=1) - targets).square().sum(dim=1)


class ByHand(Trainer):
    """Plain epochs with steps of its own."""

    name = "by-hand"

    def memory_epoch(self, memory, epoch):
        for rows, images, targets in self.memory_batches(memory):
            assert len(rows) == len(images) == len(targets)
            self.step(0, soft_cross_entropy(self.models[0].logits(images), targets).mean())


def learnt(trainer: object, consolidated: bool = True, **options: object) -> dict[str, Tensor]:
    learner = tiny_learner(sampler="puridiver", trainer=trainer, **{**EVERYTHING, **options})
    for start in range(0, 40, 8):
        learner.observe(IMAGES[start : start + 8], LABELS[start : start + 8])
        if start == 16 and consolidated:
            learner.consolidate()
    return tensors_of(learner)


@pytest.mark.parametrize("trainer", [CrossEntropyAgain, ByHand])
@pytest.mark.parametrize("recipe", ["official", "paper", "puridiver"])
def test_by_cross_entropy_it_is_plain_training_to_the_bit(trainer, recipe) -> None:
    assert differing(learnt("plain", recipe=recipe), learnt(trainer, recipe=recipe)) == []


def test_another_loss_changes_memory_epochs_and_by_choice_the_online_step() -> None:
    plain, weights = learnt("plain", consolidated=False), "trainer.network0.head.linear.weight"
    assert weights in differing(plain, learnt(Squares, consolidated=False))
    assert differing(plain, learnt(Squares, consolidated=False, **{"loss_online": False})) == []
    assert weights in differing(learnt("plain"), learnt(Squares, **{"loss_online": False}))


def test_an_online_step_goes_down_the_gradient_of_the_own_loss() -> None:
    plugins.as_name(Squares)
    trainer = tiny_trainer("squares", momentum=0.0, weight_decay=0.0, online_lr=0.5)
    batch = as_samples(IMAGES[:8], LABELS[:8])
    bias = trainer.networks[0].head.linear.bias
    before = bias.detach().clone()
    p = train_logits(trainer, batch.images).softmax(dim=1).detach().requires_grad_()
    logits = p.log().detach().requires_grad_()
    (logits.softmax(dim=1) - F.one_hot(batch.labels, 3)).square().sum(dim=1).mean().backward()
    loss = trainer.observe(batch.images, batch.labels)
    torch.testing.assert_close(bias.detach(), before - 0.5 * logits.grad.sum(dim=0), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(loss, F.cross_entropy(p.detach().log(), batch.labels))  # Eq. 3 stays cross-entropy's


IGNORING = """
import puridiver, torch

@puridiver.register
class Nothing(puridiver.Trainer):
    '''Learns nothing from its memory.'''
    name = "nothing"
    {ignores}
    def memory_epoch(self, memory, epoch):
        pass
"""


def test_a_loss_that_is_not_one_of_each_sample_is_an_error() -> None:
    class Mean(puridiver.LossTrainer):
        """Forgets that it is asked for each."""

        name = "mean"

        def sample_losses(self, logits: Tensor, targets: Tensor) -> Tensor:
            return soft_cross_entropy(logits, targets).mean()

    learner = tiny_learner(sampler="rsv", trainer=Mean)
    with pytest.raises(ValueError, match=r"the loss of each sample, of shape \(8,\), but returned \(\)"):
        learner.observe(IMAGES[:8], LABELS[:8])


def test_a_loss_trainer_without_a_loss_is_refused() -> None:
    with pytest.raises(ValueError, match="trainer 'empty' should have sample_losses"):
        puridiver.register(type("Empty", (puridiver.LossTrainer,), {"name": "empty"}))

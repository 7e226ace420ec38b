"""Co-teaching (Han et al., 2018): two networks teach each other with their small-loss samples."""

import math

from torch import Tensor

from puridiver.equations import soft_cross_entropy
from puridiver.memory import Samples
from puridiver.options import Option
from puridiver.trainers.base import Trainer


def kept_share(epoch: int, noise_rate: float, forget_epochs: int) -> float:
    """The share of a batch that is learnt from: falls linearly from 1 to 1 - noise rate."""
    return 1 - noise_rate * min(epoch / forget_epochs, 1)


def small_loss_rows(losses: Tensor, share: float) -> Tensor:
    """Rows of the smallest losses, their number rounded up; at least one."""
    return losses.topk(max(1, math.ceil(share * len(losses))), largest=False).indices


class CoTeaching(Trainer):
    """Each network learns from the samples that the other finds easy. Untold of the noise rate, it drops nothing."""

    name = "coteaching"
    title = "Co-teaching"
    summary = "two networks, each learns from the other's small-loss samples (needs the noise rate)"
    n_networks = 2
    own_options = {
        "forget_epochs": Option(10, "epochs until the kept share has fallen to 1 - noise rate", low=1),
    }

    def memory_epoch(self, memory: Samples, epoch: int) -> None:
        rate = self.context.hint.rate if self.context.hint else 0.0
        share = kept_share(epoch, rate, self.options.forget_epochs)
        self.run_epoch(self._teaching_step, memory, None, share)

    def _teaching_step(self, row: Tensor, n: int, share: float) -> None:
        images, targets = self.mixed_batch(row, n)  # one draw of CutMix: both losses speak of the same images
        losses = [soft_cross_entropy(model.logits(images), targets) for model in self.models]
        easy = [small_loss_rows(loss.detach(), share) for loss in losses]
        for k in range(2):
            self.models[k].step(losses[k][easy[1 - k]].mean())

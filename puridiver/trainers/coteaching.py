"""Co-teaching (Han et al., 2018): two networks teach each other with their small-loss samples."""

from __future__ import annotations

from torch import Tensor

from puridiver.equations import soft_cross_entropy
from puridiver.samples import Samples
from puridiver.trainers.base import Trainer


def kept_share(epoch: int, noise_rate: float, forget_epochs: int) -> float:
    """The share of a batch that is learnt from: falls linearly from 1 to 1 - noise rate."""
    return 1 - noise_rate * min(epoch / forget_epochs, 1)


def small_loss_rows(losses: Tensor, share: float) -> Tensor:
    """Rows of the smallest losses; at least one."""
    return losses.topk(max(1, round(share * len(losses))), largest=False).indices


class CoTeaching(Trainer):
    """Each network learns from the samples that the other finds easy. Untold of the noise rate, it drops nothing."""

    name = "coteaching"
    title = "Co-teaching"
    summary = "two networks, each learns from the other's small-loss samples (needs the noise rate)"
    n_networks = 2

    def memory_epoch(self, memory: Samples, epoch: int) -> None:
        rate = self.context.hint.rate if self.context.hint else 0.0
        share = kept_share(epoch, rate, self.options.forget_epochs)
        views, targets = self.strong_view(memory.images), self.one_hot(memory.labels)
        for rows in self.batches(len(memory)):
            # One draw of CutMix for both, so that their losses speak of the same images.
            x, t = self.maybe_cutmix(self.to_float(views[rows]), targets[rows], self.options.cutmix)
            losses = [soft_cross_entropy(net.train()(x).float(), t) for net in self.networks]
            easy = [small_loss_rows(loss.detach(), share) for loss in losses]
            for k in range(2):
                self.step(k, losses[k][easy[1 - k]].mean())

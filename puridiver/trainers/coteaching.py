"""Co-teaching (Han et al., 2018): two networks teach each other with their small-loss samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from puridiver import augment
from puridiver.equations import soft_cross_entropy
from puridiver.memory import Samples
from puridiver.options import Option
from puridiver.runtime.plans import PlanRunner
from puridiver.trainers.base import Trainer, TrainerContext


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
    wants_hint = True
    reads_hint = True
    own_options: ClassVar[Mapping[str, Option]] = {
        "forget_epochs": Option(10, "epochs until the kept share has fallen to 1 - noise rate", low=1),
    }

    def __init__(self, context: TrainerContext) -> None:
        super().__init__(context)
        self._run_teaching = PlanRunner(self.runtime, self._teaching_step)

    def memory_epoch(self, memory: Samples, epoch: int) -> None:
        rate = self.context.hint.rate if self.context.hint else 0.0
        share = kept_share(epoch, rate, self.options.forget_epochs)
        self.buffers.put("views", self.next_memory_view(memory))
        self.buffers.put("targets", self.one_hot(memory.labels))
        # One draw of CutMix for both networks, so that their losses speak of the same images.
        for plan, n in self.plain_plans(len(memory)):
            self._run_teaching(plan, n, share, self.version("views", "targets"))

    def _teaching_step(self, row: Tensor, n: int, share: float, version: object) -> None:
        rows = row[:n]
        images, targets = augment.planned_cutmix(self.buffers["views"][rows], self.buffers["targets"][rows], row[n:])
        x = self.to_float(images)
        losses = [soft_cross_entropy(model.logits(x), targets) for model in self.models]
        easy = [small_loss_rows(loss.detach(), share) for loss in losses]
        for k in range(2):
            self.step(k, losses[k][easy[1 - k]].mean())

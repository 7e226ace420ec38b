"""DER++, dark experience replay (Buzzega et al., NeurIPS 2020)."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver.equations import soft_cross_entropy
from puridiver.options import Option
from puridiver.trainers.er import ExperienceReplay
from puridiver.trainers.online import OnlineBatch


def logit_distance(logits: Tensor, kept: Tensor) -> Tensor:
    """The mean squared difference of logits (N, C) from those that were kept, (), where these know the class.

    `kept` (N, C) is nan for classes that joined later.
    """
    known = kept.isfinite()
    differences = torch.where(known, logits - kept.nan_to_num(), 0.0)
    return differences.square().sum() / known.sum().clamp(min=1)


class DarkReplay(ExperienceReplay):
    """Keeps with each sample the logits that it arrived with, and holds the network to them.

    Each step replays twice: some samples for their logits, others for their labels. The logits are those of the
    training pass, before the step.
    """

    name = "derpp"
    title = "DER++"
    summary = "experience replay; replayed samples should keep their label and the logits that they arrived with"
    own_options = {
        "der_alpha": Option(0.2, "weight of the distance of logits", low=0),
        "der_beta": Option(0.5, "weight of the replayed labels", low=0),
    }

    def to_keep(self, targets: Tensor, logits: Tensor) -> Tensor | None:
        return logits

    def replay_size(self, n_stream: int) -> int:
        return 2 * super().replay_size(n_stream)

    def online_loss(self, batch: OnlineBatch, logits_of: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        n_replayed = len(batch.images) - batch.n_stream
        n_dark = (n_replayed + 1) // 2
        sizes = [batch.n_stream, n_dark, n_replayed - n_dark]
        parts = [logits_of(part) for part in batch.images.split(sizes) if len(part)]
        loss = soft_cross_entropy(parts[0], batch.targets[: batch.n_stream]).mean()
        if n_dark:
            kept = batch.vectors[:n_dark]
            kept = F.pad(kept, (0, self.n_classes - kept.shape[1]), value=torch.nan)
            loss = loss + self.options.der_alpha * logit_distance(parts[1], kept)
        if len(parts) > 2:
            targets = batch.targets[batch.n_stream + n_dark :]
            loss = loss + self.options.der_beta * soft_cross_entropy(parts[2], targets).mean()
        return loss, torch.cat(parts)

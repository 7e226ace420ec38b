"""ER-ACE (Caccia et al., "New insights on reducing abrupt representation change", ICLR 2022)."""

from collections.abc import Callable

import torch
from torch import Tensor

from puridiver.equations import among_present, soft_cross_entropy
from puridiver.trainers.er import ExperienceReplay
from puridiver.trainers.online import OnlineBatch


def asymmetric_cross_entropy(logits: Tensor, targets: Tensor, n_stream: int) -> Tensor:
    """L_ce(stream, its own classes) + L_ce(replay, all classes), (): logits and targets (N, C), the stream's first."""
    new, replayed = targets.split([n_stream, len(targets) - n_stream])
    loss = soft_cross_entropy(among_present(logits[:n_stream], new), new).mean()
    return loss + soft_cross_entropy(logits[n_stream:], replayed).mean() if len(replayed) else loss


class AsymmetricReplay(ExperienceReplay):
    """Stream samples compete with the classes of their own batch alone, so that they do not push old classes away.

    Stream and replay pass through the network apart, as its authors have it.
    """

    name = "er-ace"
    title = "ER-ACE"
    summary = "experience replay; stream samples compete with the classes of their own batch alone"

    def online_loss(self, batch: OnlineBatch, logits_of: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        parts = batch.images.split([batch.n_stream, len(batch.images) - batch.n_stream])
        logits = torch.cat([logits_of(part) for part in parts if len(part)])
        return asymmetric_cross_entropy(logits, batch.targets, batch.n_stream), logits

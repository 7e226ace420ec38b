"""The loss of a sample when it arrives, before memory training can fit its label, be it right or wrong."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from puridiver.memory.base import Moment
from puridiver.memory.samples import Samples
from puridiver.options import Option

NTD_VIEWS = Option(8, "augmented views over which an arriving sample's loss is averaged", low=1)


def loss_on_arrival(batch: Samples, moment: Moment, views: int) -> Tensor:
    """Each sample's loss averaged over augmented views, (B,)."""
    logits = moment.network.outputs(moment.strong_view(batch.images.repeat(views, 1, 1, 1)))[1]
    losses = F.cross_entropy(logits.float(), batch.labels.repeat(views), reduction="none")
    return losses.view(views, len(batch)).mean(dim=0)

"""PuriDivER's score with the loss that a sample had on arrival, alone or beside today's: a plugin.

For scripts/choose-arrival.toml.

Memory training fits wrong labels, too: afterwards the loss of a wrongly labelled sample in the memory is low, and
Eq. 2 no longer sees it. What the sample had on arrival, averaged over strong views as NTD does, tells more, but of an
earlier network. puridiver grid scripts/choose-sampler.toml --plugin scripts/arrival_loss.py --data-root DATA
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

import puridiver
from puridiver import equations
from puridiver.memory.base import Moment
from puridiver.memory.ntd import NTDSampler
from puridiver.memory.puridiver import HUGE_LOSS, Eviction, PuriDivERSampler
from puridiver.plans import Captured
from puridiver.samples import Samples


@puridiver.register
class ArrivalLoss(PuriDivERSampler):
    """PuriDivER's sampler by the loss on arrival, over augmented views."""

    name = "arrival-loss"
    title = "PuriDivER by the loss on arrival"
    note_arrivals = NTDSampler.note_arrivals
    share_of_today = 0.0

    def choose(self, pool: Samples, n_old: int, capacity: int, moment: Moment) -> Tensor:
        if len(pool) <= capacity:
            return super().choose(pool, n_old, capacity, moment)
        features, logits = moment.network.outputs(pool.images)
        ties = torch.rand(len(pool) - n_old, moment.n_classes, generator=moment.generator)
        if self._evict is None:
            self._evict = Captured(moment.runtime, partial(self._survivors_by_notes, capacity))
        rows, alpha = self._evict(
            features, logits, pool.notes, pool.labels, pool.checked, moment.network.class_weights, moment.batch_loss,
            moment.runtime.move(ties),
        )  # fmt: skip
        self._alpha = alpha.clone()
        return rows

    def _survivors_by_notes(
        self, capacity: int, features: Tensor, logits: Tensor, notes: Tensor, y: Tensor, checked: Tensor, w: Tensor,
        batch_loss: Tensor, ties: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """As PuriDivER's, always from the largest class, with another loss in the score."""
        alpha = self._balance(batch_loss)
        today = F.cross_entropy(logits, y, reduction="none")
        loss = (notes + self.share_of_today * today).nan_to_num(nan=HUGE_LOSS).clamp(max=HUGE_LOSS)
        u = equations.relevant_directions(features.nan_to_num(), y, w)
        eviction = Eviction(loss, u, y, ties.shape[1], alpha, self.options.standardise_scores, checked)
        n_old = len(y) - len(ties)
        eviction.admit(n_old)
        for i in range(len(ties)):
            eviction.admit(n_old + i + 1)
            if n_old + i >= capacity:
                eviction.drop_worst(ties[i])
        return eviction.members(capacity), alpha


@puridiver.register
class BothLosses(ArrivalLoss):
    """PuriDivER's sampler by the sum of the loss on arrival and today's."""

    name = "both-losses"
    title = "PuriDivER by both losses"
    share_of_today = 1.0

"""NTD: keep the classes level and drop the highest loss, measured once on arrival (a 2024 follow-up)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver.memory.base import Moment, Sampler, class_counts, largest_class, surviving_rows
from puridiver.samples import Samples


class NTDSampler(Sampler):
    """Drops, from the largest class, the sample whose loss over augmented views was highest when it arrived."""

    name = "ntd"
    title = "NTD"
    summary = "drops the largest class's highest loss, averaged over augmented views on arrival"

    def note_arrivals(self, batch: Samples, moment: Moment) -> Tensor:
        total = torch.zeros_like(batch.notes)
        for _ in range(self.options.ntd_views):
            logits = moment.network.outputs(moment.strong_view(batch.images))[1]
            total += F.cross_entropy(logits.float(), batch.labels, reduction="none")
        return total / self.options.ntd_views

    def choose(self, pool: Samples, n_old: int, capacity: int, moment: Moment) -> Tensor:
        alive = torch.ones(len(pool), dtype=torch.bool, device=pool.labels.device)
        for _ in range(len(pool) - capacity):
            counts = class_counts(pool.labels, alive, moment.n_classes)
            ties = moment.runtime.move(torch.rand(moment.n_classes, generator=moment.generator))
            of_largest = alive & (pool.labels == largest_class(counts, ties))
            worst = pool.notes.masked_fill(~of_largest, -torch.inf).argmax()
            alive.scatter_(0, worst[None], False)
        return surviving_rows(alive, min(capacity, len(pool)))

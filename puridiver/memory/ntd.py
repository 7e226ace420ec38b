"""NTD: keep the classes level and drop the highest loss, measured once on arrival (Chen, arXiv 2404.04871)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from puridiver.memory.base import NTD_VIEWS, Moment, Sampler, Samples, class_counts, loss_on_arrival, surviving_rows
from puridiver.options import Options
from puridiver.runtime.plans import captured


class HighestNoteGoes(Sampler):
    """Keeps the classes level: the largest class loses the sample whose note, made on arrival, is highest."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._evict: Callable[..., Any] | None = None

    def choose(self, pool: Samples, n_old: int, capacity: int, moment: Moment) -> Tensor:
        if len(pool) <= capacity:
            return torch.arange(len(pool))
        # A row of tie-breakers for each drop: its shape tells the captured function how many there are.
        ties = torch.rand(len(pool) - capacity, moment.n_classes, generator=moment.generator)
        if self._evict is None:
            self._evict = captured(moment.runtime, survivors)
        return self._evict(pool.notes, pool.labels, moment.runtime.move(ties))


class NTDSampler(HighestNoteGoes):
    """Drops, from the largest class, the sample whose loss over augmented views was highest when it arrived."""

    name = "ntd"
    title = "NTD"
    summary = "drops the largest class's highest loss, averaged over augmented views on arrival"
    own_options = {"ntd_views": NTD_VIEWS}

    def note_arrivals(self, batch: Samples, moment: Moment) -> Tensor:
        return loss_on_arrival(batch, moment, self.options.ntd_views)


def survivors(notes: Tensor, labels: Tensor, ties: Tensor) -> Tensor:
    """The rows that stay after the largest class has lost its highest note once for each row of tie-breakers."""
    alive = torch.ones_like(labels, dtype=torch.bool)
    for row in ties:
        of_largest = alive & (labels == (class_counts(labels, alive, ties.shape[1]) + row).argmax())
        worst = notes.masked_fill(~of_largest, -torch.inf).argmax(dim=0, keepdim=True)
        alive.scatter_(0, worst, False)
    return surviving_rows(alive, len(labels) - len(ties))

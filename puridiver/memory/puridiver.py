"""PuriDivER's sampler: drop the sample with the highest score of impurity and redundancy (Def. 1, Eqs. 2 and 3)."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver import equations
from puridiver.memory.base import Moment, Sampler, largest_class, surviving_rows
from puridiver.recipes import Options
from puridiver.runtime import Captured
from puridiver.samples import Samples

HUGE_LOSS = 1e4


class PuriDivERSampler(Sampler):
    """Adds one arriving sample at a time and drops the one with the highest score (supplement, Alg. 1)."""

    name = "puridiver"
    title = "PuriDivER"
    summary = "drops what looks wrongly labelled (loss) and redundant (cosine), Eq. 2"
    freezes_norm = True

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._evict: Captured | None = None
        self._alpha: Tensor | None = None  # of the last choice

    def choose(self, pool: Samples, n_old: int, capacity: int, moment: Moment) -> Tensor:
        if len(pool) <= capacity:
            self._alpha = self._balance(moment.batch_loss)
            return torch.arange(len(pool))
        features, logits = moment.network.outputs(pool.images)
        # A row of tie-breakers for each arriving sample: its shape tells the captured function how many there are.
        ties = torch.rand(len(pool) - n_old, moment.n_classes, generator=moment.generator)
        if self._evict is None:
            self._evict = Captured(moment.runtime, partial(self._survivors, capacity))
        rows, alpha = self._evict(
            features, logits, pool.labels, moment.network.class_weights, moment.batch_loss, moment.runtime.move(ties)
        )
        self._alpha = alpha.clone()  # the captured function's own is overwritten by its next call
        return rows

    def _survivors(
        self, capacity: int, features: Tensor, logits: Tensor, y: Tensor, w: Tensor, batch_loss: Tensor, ties: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The rows that stay, and the balance they were chosen with."""
        alpha = self._balance(batch_loss)
        # A sample that the network cannot judge (nan, inf) counts as one with a huge loss: it goes first.
        loss = F.cross_entropy(logits, y, reduction="none").nan_to_num(nan=HUGE_LOSS, posinf=HUGE_LOSS)
        u = equations.relevant_directions(features.nan_to_num(), y, w)
        eviction = Eviction(loss, u, y, ties.shape[1], alpha, self.options.standardise_scores)
        n_old = len(y) - len(ties)
        eviction.admit(n_old)
        from_largest = self.options.evict_from == "largest_class"
        for i in range(len(ties)):
            eviction.admit(n_old + i + 1)
            if n_old + i >= capacity:
                eviction.drop_worst(ties[i] if from_largest else None)
        return eviction.members(capacity), alpha

    def _balance(self, batch_loss: Tensor) -> Tensor:
        if self.options.alpha >= 0:
            return torch.full_like(batch_loss, self.options.alpha)
        return equations.adaptive_alpha(batch_loss)

    def diagnostics(self) -> dict[str, Tensor]:
        return {} if self._alpha is None else {"alpha": self._alpha}


class Eviction:
    """Scores a pool and drops samples one by one, without asking the device for any value.

    After a drop only the similarities of one class change, by one dot product each: O(N d) an eviction, whatever
    the number of classes. Shapes stay fixed; `alive` says who is in the memory.
    """

    def __init__(self, loss: Tensor, u: Tensor, y: Tensor, n_classes: int, alpha: Tensor, standardise: bool) -> None:
        self.loss, self.u, self.y, self.n_classes = loss, u, y, n_classes
        self.alpha, self.standardise = alpha, standardise
        self.alive = torch.zeros_like(y, dtype=torch.bool)
        self.counts = u.new_zeros(n_classes)
        self.cosine_sums = u.new_zeros(len(u))  # sum of cosines with the living samples of the own class
        self.admitted = 0

    def admit(self, until: int) -> None:
        """Let the samples up to row `until` into the memory."""
        rows = slice(self.admitted, until)
        newcomers, classes = self.u[rows], self.y[rows]
        self.alive[rows] = True
        self.counts.index_add_(0, classes, torch.ones_like(classes, dtype=self.counts.dtype))
        if len(newcomers) == 1:
            self._change_sums(newcomers[0], classes[0], +1)
        else:
            sums = self.u.new_zeros(self.n_classes, self.u.shape[1]).index_add_(0, classes, newcomers)
            self.cosine_sums += (self.u * sums[self.y]).sum(dim=1)
        self.admitted = until

    def _change_sums(self, vector: Tensor, label: Tensor, sign: int) -> None:
        self.cosine_sums += sign * (self.u @ vector) * (self.y == label)

    def scores(self) -> Tensor:
        """Equation 2 for every row of the pool."""
        terms = torch.stack([self.loss, self.cosine_sums / self.counts.clamp(min=1)[self.y]])
        if self.standardise:
            terms = equations.standardise_within_class(terms, self.y, self.alive, self.n_classes)
        return equations.score(terms[0], terms[1], self.alpha)

    def drop_worst(self, tie_breakers: Tensor | None) -> None:
        """Drop the highest score: of the whole memory, or of the largest class if tie-breakers are given."""
        candidates = self.alive
        if tie_breakers is not None:
            candidates = candidates & (self.y == largest_class(self.counts, tie_breakers))
        # (1,): indexing by a tensor without dimensions would read its value on the host
        worst = self.scores().masked_fill(~candidates, -torch.inf).argmax(dim=0, keepdim=True)
        label = self.y.index_select(0, worst)
        self.alive.scatter_(0, worst, False)
        self.counts.index_add_(0, label, self.counts.new_full((1,), -1))
        self._change_sums(self.u.index_select(0, worst).squeeze(0), label, -1)

    def members(self, n: int) -> Tensor:
        """The rows of the `n` survivors, in order."""
        return surviving_rows(self.alive, n)

"""PuriDivER's sampler: drop the sample with the highest score of impurity and redundancy (Def. 1, Eqs. 2 and 3)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver import equations
from puridiver.memory.base import Moment, Sampler, largest_class
from puridiver.samples import Samples


class PuriDivERSampler(Sampler):
    """Adds one arriving sample at a time and drops the one with the highest score (supplement, Alg. 1)."""

    name = "puridiver"
    title = "PuriDivER"
    summary = "drops what looks wrongly labelled (loss) and redundant (cosine), Eq. 2"
    looks_through_network = True

    def choose(self, pool: Samples, n_old: int, capacity: int, moment: Moment) -> Tensor:
        self._alpha = self._balance(moment)
        if len(pool) <= capacity:
            return torch.arange(len(pool))
        features, logits = moment.network.outputs(pool.images)
        loss = F.cross_entropy(logits.float(), pool.labels, reduction="none")
        u = equations.relevant_directions(features.float(), pool.labels, moment.network.class_weights.float())
        eviction = Eviction(loss, u, pool.labels, moment.n_classes, self._alpha, self.options.standardise_scores)
        eviction.admit(n_old)
        from_largest = self.options.evict_from == "largest_class"
        ties = torch.rand(len(pool), moment.n_classes, generator=moment.generator).to(u.device)
        for row in range(n_old, len(pool)):
            eviction.admit(row + 1)
            if row >= capacity:
                eviction.drop_worst(ties[row] if from_largest else None)
        return eviction.members(capacity)

    def _balance(self, moment: Moment) -> Tensor:
        if self.options.alpha >= 0:
            return torch.full_like(moment.batch_loss, self.options.alpha)
        return equations.adaptive_alpha(moment.batch_loss)

    def diagnostics(self) -> dict[str, Tensor]:
        return {"alpha": self._alpha}


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
        loss, similarity = self.loss, self.cosine_sums / self.counts.clamp(min=1)[self.y]
        if self.standardise:
            loss = equations.standardise_within_class(loss, self.y, self.alive, self.n_classes)
            similarity = equations.standardise_within_class(similarity, self.y, self.alive, self.n_classes)
        return equations.score(loss, similarity, self.alpha)

    def drop_worst(self, tie_breakers: Tensor | None) -> None:
        """Drop the highest score: of the whole memory, or of the largest class if tie-breakers are given."""
        candidates = self.alive
        if tie_breakers is not None:
            candidates = candidates & (self.y == largest_class(self.counts, tie_breakers))
        worst = self.scores().masked_fill(~candidates, -torch.inf).argmax()
        self.alive.scatter_(0, worst[None], False)
        self.counts.index_add_(0, self.y[worst][None], self.counts.new_full((1,), -1))
        self._change_sums(self.u[worst], self.y[worst], -1)

    def members(self, n: int) -> Tensor:
        """The rows of the `n` survivors, in order."""
        return self.alive.logical_not().to(torch.uint8).argsort(stable=True)[:n]

"""PuriDivER's sampler: drop the sample with the highest score of impurity and redundancy (Def. 1, Eqs. 2 and 3)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver import equations
from puridiver.memory.base import NTD_VIEWS, Moment, Sampler, Samples, class_counts, loss_on_arrival, surviving_rows
from puridiver.options import Option, Options
from puridiver.runtime.plans import Captured

HUGE_LOSS = 1e4
CHECKED = -1e5  # added to a score: below that of any loss, and the first two decimals of such scores still count


class PuriDivERSampler(Sampler):
    """Adds one arriving sample at a time and drops the one with the highest score (supplement, Alg. 1)."""

    name = "puridiver"
    title = "PuriDivER"
    summary = "drops what looks wrongly labelled (loss) and redundant (cosine), Eq. 2"
    freezes_norm = True
    own_options: ClassVar[Mapping[str, Option]] = {
        "evict_from": Option(
            "memory", "evict the worst sample of the whole memory or of the largest class [row 1]",
            ("memory", "largest_class"),
        ),
        "standardise_scores": Option(False, "z-score loss and similarity within the class [row 2]"),
        "alpha": Option(-1.0, "Eq. 3's balance: a static value in [0, 1], or -1 for the adaptive one", low=-1, high=1),
        "arrival_weight": Option(
            0.0, "weight in Eq. 2 of the loss on arrival, before memory training, beside today's (0: today's alone)",
            low=0, high=100,
        ),
        "purity_by": Option(
            "loss", "what tells a wrong label: the loss, or by how much another class is likelier (0 if none is)",
            ("loss", "margin", "margin_now", "margin_arrival", "soft"),
        ),
        "checked_share": Option(
            0.5, "largest share of a class, newest first, that is kept since a person has checked its labels (1: all)",
            low=0, high=1,
        ),
        "ntd_views": NTD_VIEWS,
    }  # fmt: skip

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        if -1 < options.alpha < 0:
            raise ValueError(f"option alpha should be in [0, 1], or -1 (adaptive), but got {options.alpha}")
        self._evict: Captured | None = None
        self._alpha: Tensor | None = None  # of the last choice

    def note_arrivals(self, batch: Samples, moment: Moment) -> Tensor:
        if not self.options.arrival_weight:
            return batch.notes
        return loss_on_arrival(batch, moment, self.options.ntd_views, self.options.purity_by)

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
            features, logits, pool.notes, pool.labels, pool.checked, moment.network.class_weights, moment.batch_loss,
            moment.runtime.move(ties),
        )  # fmt: skip
        self._alpha = alpha.clone()  # the captured function's own is overwritten by its next call
        return rows

    def _survivors(
        self, capacity: int, features: Tensor, logits: Tensor, on_arrival: Tensor, y: Tensor, checked: Tensor,
        w: Tensor, batch_loss: Tensor, ties: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The rows that stay, and the balance they were chosen with."""
        alpha = self._balance(batch_loss)
        by = self.options.purity_by
        if by in ("margin", "margin_now"):
            loss = logits.max(dim=1).values - logits.gather(1, y[:, None]).squeeze(1)
        elif by == "soft":
            loss = 0.5 * F.cross_entropy(2 * logits, y, reduction="none")
        else:
            loss = F.cross_entropy(logits, y, reduction="none")
        if self.options.arrival_weight:
            # What the network was trained on has a lower loss than what arrives, be its label right or wrong. It had
            # no such lead when it came. (Of a label that was corrected since, the loss on arrival says nothing.)
            loss = loss + self.options.arrival_weight * torch.where(checked, loss, on_arrival)
        # A sample that the network cannot judge (nan, inf) counts as one with a huge loss: it goes first.
        loss = loss.nan_to_num(nan=HUGE_LOSS).clamp(max=HUGE_LOSS)
        u = equations.relevant_directions(features.nan_to_num(), y, w)
        n_old = len(y) - len(ties)
        favoured = self._favoured(checked, y, n_old, ties.shape[1])
        eviction = Eviction(loss, u, y, ties.shape[1], alpha, self.options.standardise_scores, favoured)
        eviction.admit(n_old)
        from_largest = self.options.evict_from == "largest_class"
        for i in range(len(ties)):
            eviction.admit(n_old + i + 1)
            if n_old + i >= capacity:
                eviction.drop_worst(ties[i] if from_largest else None)
        return surviving_rows(eviction.alive, capacity), alpha

    def _favoured(self, checked: Tensor, y: Tensor, n_old: int, n_classes: int) -> Tensor:
        """Of the checked samples of each class those that came last, up to a share of what the memory has of it.

        What arrives does not count: a large batch would make all that are checked a small share of its class.
        """
        share = self.options.checked_share
        if share == 1:
            return checked
        everyone = torch.ones_like(checked)
        sizes, held = class_counts(y, everyone, n_classes), class_counts(y[:n_old], everyone[:n_old], n_classes)
        by_class = y.argsort(stable=True)
        so_far = checked[by_class].long().cumsum(dim=0)
        last = sizes.long().cumsum(dim=0)[y[by_class]] - 1  # the row, among the sorted, of the last of the same class
        # Of each row how many checked ones of its class follow it, itself included.
        following = so_far[last] - so_far + checked[by_class].long()
        rank_from_last = torch.empty_like(y).scatter_(0, by_class, following)
        return checked & (rank_from_last <= share * held[y])

    def _balance(self, batch_loss: Tensor) -> Tensor:
        if self.options.alpha >= 0:
            return torch.full_like(batch_loss, self.options.alpha)
        return equations.adaptive_alpha(batch_loss)

    def diagnostics(self) -> dict[str, Tensor]:
        return {} if self._alpha is None else {"alpha": self._alpha}


class Eviction:
    """Scores a pool and drops samples one by one, without asking the device for any value.

    After a drop only the similarities of one class change, by one dot product each: O(N d) an eviction, whatever
    the number of classes. Shapes stay fixed; `alive` says who is in the memory. Samples that are favoured, since a
    person has checked their labels, go last.
    """

    def __init__(
        self, loss: Tensor, u: Tensor, y: Tensor, n_classes: int, alpha: Tensor, standardise: bool, favoured: Tensor
    ) -> None:
        self.loss, self.u, self.y, self.n_classes = loss, u, y, n_classes
        self.alpha, self.standardise = alpha, standardise
        self.alive = torch.zeros_like(y, dtype=torch.bool)
        self.counts = u.new_zeros(n_classes)
        self._one = u.new_ones(1)
        self._favour = torch.where(favoured, CHECKED, 0.0)
        self.cosine_sums = u.new_zeros(len(u))  # sum of cosines with the living samples of the own class
        self.admitted = 0

    def admit(self, until: int) -> None:
        """Let the samples up to row `until` into the memory."""
        rows = slice(self.admitted, until)
        newcomers, classes = self.u[rows], self.y[rows]
        self.alive[rows] = True
        if len(newcomers) == 1:
            self.counts.index_add_(0, classes, self._one)
            self.cosine_sums.addcmul_(self.u @ newcomers[0], (self.y == classes).to(self.u.dtype))
        else:
            # A product and not `index_add_`, which on a GPU adds in another order each time.
            of_class = F.one_hot(classes, self.n_classes).to(self.u.dtype)
            self.counts += of_class.sum(dim=0)
            self.cosine_sums += (self.u * (of_class.T @ newcomers)[self.y]).sum(dim=1)
        self.admitted = until

    def scores(self) -> Tensor:
        """Equation 2 for every row of the pool."""
        terms = torch.stack([self.loss, self.cosine_sums / self.counts.clamp(min=1)[self.y]])
        if self.standardise:
            terms = equations.standardise_within_class(terms, self.y, self.alive, self.n_classes)
        return equations.score(terms[0], terms[1], self.alpha)

    def drop_worst(self, tie_breakers: Tensor | None) -> None:
        """Drop the highest score: of the whole memory, or of the largest class if tie-breakers are given."""
        # Labels and rows have the shape (1,): indexing by a tensor without dimensions would read it on the host.
        if tie_breakers is None:
            scores, members, label = self.scores(), self.alive, None
        else:  # only the living rows of the largest class count
            label = (self.counts + tie_breakers).argmax()[None]
            members = self.alive & (self.y == label)
            terms = torch.stack([self.loss, self.cosine_sums / self.counts.index_select(0, label)])
            if self.standardise:
                terms = equations.standardise_among(terms, members)
            scores = equations.score(terms[0], terms[1], self.alpha)
        worst = torch.where(members, scores + self._favour, -torch.inf).argmax(dim=0, keepdim=True)
        label = self.y.index_select(0, worst) if label is None else label
        self.alive.scatter_(0, worst, False)
        self.counts.index_add_(0, label, self._one, alpha=-1)
        vector, of_class = self.u.index_select(0, worst).squeeze(0), self.y == label
        self.cosine_sums.addcmul_(self.u @ vector, of_class.to(self.u.dtype), value=-1)

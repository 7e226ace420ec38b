"""PuriDivER's sampler: drop the sample with the highest score of impurity and redundancy (Def. 1, Eqs. 2 and 3)."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver import equations
from puridiver.errors import worked
from puridiver.memory.base import NTD_VIEWS, Moment, Sampler, Samples, loss_on_arrival, surviving_rows
from puridiver.memory.delayed import PatientMemory
from puridiver.options import Option, Options
from puridiver.runtime.plans import captured

MOST_FUSED = 4096  # samples whose cosines the kernel keeps for each pair
HUGE_LOSS = 1e4
LARGE_IMAGE = 1 << 14  # bytes; of larger ones a pass takes longer than the wait for the rows that need one
ROWS_AT_A_TIME = 128  # captured passes over some rows have a multiple of these: few shapes
CHECKED = -1e5  # added to the score of a checked sample: lower than any other, and two decimals of it still count


class PuriDivERSampler(Sampler):
    """Adds one arriving sample at a time and drops the one with the highest score (supplement, Alg. 1)."""

    name = "puridiver"
    title = "PuriDivER"
    summary = "drops what looks wrongly labelled (loss) and redundant (cosine), Eq. 2"
    freezes_norm = True
    memory_class = PatientMemory
    own_options = {
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
            "loss", "how to score a label today: by its loss, or by its margin (largest logit less the label's)",
            ("loss", "margin"),
        ),
        "ntd_views": NTD_VIEWS,
        "delay": Option(
            0, "arrivals that wait in a full memory to be judged together, at most a quarter of it: saves time", low=0
        ),
    }  # fmt: skip

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        if -1 < options.alpha < 0:
            raise ValueError(f"alpha should be in [0, 1], or -1 (adaptive), but got {options.alpha}")
        self._evict: Callable[..., Any] | None = None
        self._alpha: Tensor | None = None  # of the last choice

    def note_arrivals(self, batch: Samples, moment: Moment) -> Tensor:
        if not self.options.arrival_weight:
            return batch.notes
        return loss_on_arrival(batch, moment, self.options.ntd_views)

    def choose(self, pool: Samples, n_old: int, capacity: int, moment: Moment) -> Tensor:
        if len(pool) <= capacity:
            self._alpha = self._balance(moment.batch_loss)
            return torch.arange(len(pool))
        # A row of tie-breakers for each arriving sample: its shape tells the captured function how many there are.
        ties = torch.rand(len(pool) - n_old, moment.n_classes, generator=moment.generator)
        captures = moment.runtime.graphs
        if self.options.evict_from == "largest_class" and not (captures and pool.images[0].nbytes < LARGE_IMAGE):
            rows = rows_of_losing_classes(pool.labels, n_old, capacity, ties)
            passed = pool.images[repeated_to(ROWS_AT_A_TIME, rows) if captures else rows]
            found = [each[: len(rows)] for each in moment.network.outputs(passed)]
            features = found[0].new_zeros(len(pool), found[0].shape[1]).index_copy_(0, rows, found[0])
            logits = found[1].new_zeros(len(pool), found[1].shape[1]).index_copy_(0, rows, found[1])
        else:
            features, logits = moment.network.outputs(pool.images)
        if self._evict is None:
            self._evict = captured(moment.runtime, self._survivors)
        rows, alpha = self._evict(
            features, logits, pool.notes, pool.labels, pool.checked, moment.network.class_weights, moment.batch_loss,
            moment.runtime.move(ties), capacity,
        )  # fmt: skip
        self._alpha = alpha.clone()  # the captured function's own is overwritten by its next call
        return rows

    def _survivors(
        self, features: Tensor, logits: Tensor, on_arrival: Tensor, y: Tensor, checked: Tensor, w: Tensor,
        batch_loss: Tensor, ties: Tensor, capacity: int,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """The rows that stay, and the balance they were chosen with."""
        alpha = self._balance(batch_loss)
        by_margin = self.options.purity_by == "margin"
        loss = equations.label_margin(logits, y) if by_margin else F.cross_entropy(logits, y, reduction="none")
        if self.options.arrival_weight:
            # What the network was trained on has a lower loss than what arrives, be its label right or wrong. It had
            # no such lead when it came. (Of a label that was corrected since, the loss on arrival says nothing.)
            loss = loss + self.options.arrival_weight * torch.where(checked, loss, on_arrival)
        # A sample that the network cannot judge (nan, inf) counts as one with a huge loss: it goes first.
        loss = loss.nan_to_num(nan=HUGE_LOSS).clamp(max=HUGE_LOSS)
        u = equations.relevant_directions(features.nan_to_num(), y, w)
        eviction = Eviction(loss, u, y, ties.shape[1], alpha, self.options.standardise_scores, checked)
        eviction.admit(len(y) - len(ties))
        if self.options.evict_from == "memory":
            eviction.run(ties, capacity, from_largest=False)
        elif y.is_cuda and len(y) <= MOST_FUSED and fused_eviction_works(y.device):
            eviction.run_fused(ties, capacity)
        else:
            eviction.run(ties, capacity, from_largest=True)
        return surviving_rows(eviction.alive, capacity), alpha

    def _balance(self, batch_loss: Tensor) -> Tensor:
        if self.options.alpha >= 0:
            return torch.full_like(batch_loss, self.options.alpha)
        return equations.adaptive_alpha(batch_loss)

    def diagnostics(self) -> dict[str, Tensor]:
        return {} if self._alpha is None else {"alpha": self._alpha}


def rows_of_losing_classes(labels: Tensor, n_old: int, capacity: int, ties: Tensor) -> Tensor:
    """The rows of the classes from which `Eviction` drops samples: the only ones whose scores count.

    It drops from the largest class each time, and labels and tie-breakers alone decide which class that is.
    """
    counts, losing = labels[:n_old].bincount(minlength=ties.shape[1]).cpu() + 0.0, list[int]()
    for i, label in enumerate(labels[n_old:].tolist()):
        counts[label] += 1
        if n_old + i >= capacity:
            losing.append(int((counts + ties[i]).argmax()))
            counts[losing[-1]] -= 1
    return torch.isin(labels, torch.tensor(losing, device=labels.device)).nonzero().squeeze(1)


def repeated_to(multiple: int, rows: Tensor) -> Tensor:
    """The rows, and some of them again up to a multiple of so many."""
    n = -(-len(rows) // multiple) * multiple
    return rows.repeat(-(-n // len(rows)))[:n]


class Eviction:
    """Scores a pool and drops samples one by one, without asking the device for any value.

    After a drop only the similarities of one class change, by one dot product each: O(N d) an eviction, whatever
    the number of classes. Shapes stay fixed; `alive` says who is in the memory. Samples whose labels a person has
    checked go last.
    """

    def __init__(
        self, loss: Tensor, u: Tensor, y: Tensor, n_classes: int, alpha: Tensor, standardise: bool, checked: Tensor
    ) -> None:
        self.loss, self.u, self.y, self.n_classes = loss, u, y, n_classes
        self.alpha, self.standardise = alpha, standardise
        self.alive = torch.zeros_like(y, dtype=torch.bool)
        self.counts = u.new_zeros(n_classes)
        self._one = u.new_ones(1)
        self._favour = torch.where(checked, CHECKED, 0.0)
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

    def run(self, ties: Tensor, capacity: int, from_largest: bool) -> None:
        """Admit the remaining rows one by one; each that finds the memory full drops the worst sample."""
        for row, tie_breakers in enumerate(ties, start=self.admitted):
            self.admit(row + 1)
            if row >= capacity:
                self.drop_worst(tie_breakers if from_largest else None)

    def run_fused(self, ties: Tensor, capacity: int) -> None:
        """`run` from the largest class, in one kernel."""
        from puridiver.runtime.fused_eviction import evict

        with torch.cuda.device(self.y.device) if self.y.is_cuda else contextlib.nullcontext():  # Triton launches there
            self.alive = evict(
                self.loss, self.u, self.y, self._favour, self.alive, self.counts, self.cosine_sums, self.alpha, ties,
                capacity, self.standardise,
            )  # fmt: skip

    def drop_worst(self, tie_breakers: Tensor | None) -> None:
        """Drop the highest score: of the whole memory, or of the largest class if tie-breakers are given."""
        terms, members = torch.stack([self.loss, self.cosine_sums / self.counts.clamp(min=1)[self.y]]), self.alive
        if tie_breakers is not None:
            members = self.alive & (self.y == (self.counts + tie_breakers).argmax())
        if self.standardise and tie_breakers is None:
            terms = equations.standardise_within_class(terms, self.y, members, self.n_classes)
        elif self.standardise:
            terms = equations.standardise_among(terms, members)
        scores = equations.score(terms[0], terms[1], self.alpha)
        # Labels and rows have the shape (1,): indexing by a tensor without dimensions would read it on the host.
        worst = torch.where(members, scores + self._favour, -torch.inf).argmax(dim=0, keepdim=True)
        label = self.y.index_select(0, worst)
        self.alive.scatter_(0, worst, False)
        self.counts.index_add_(0, label, self._one, alpha=-1)
        vector, of_class = self.u.index_select(0, worst).squeeze(0), self.y == label
        self.cosine_sums.addcmul_(self.u @ vector, of_class.to(self.u.dtype), value=-1)


@functools.cache
def fused_eviction_works(device: torch.device) -> bool:
    """Whether the kernel compiles and runs here: it needs Triton and a C compiler. Tried once."""

    def attempt() -> None:
        numbers = torch.linspace(0, 1, 4, device=device)
        labels, nobody = torch.zeros(4, dtype=torch.int64, device=device), torch.zeros(4, device=device) > 0
        eviction = Eviction(numbers, numbers[:, None], labels, 2, numbers[1], True, nobody)
        eviction.run_fused(torch.zeros(4, 2, device=device), 2)

    return worked(attempt, "evictions run in many small kernels, slower")

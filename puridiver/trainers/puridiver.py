"""PuriDivER's trainer: clean samples as given, sure noisy ones re-labelled, the rest unlabelled (Eqs. 4 to 11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from puridiver import augment, equations
from puridiver.memory import Samples
from puridiver.options import Option
from puridiver.runtime.plans import Captured, PlanRunner
from puridiver.trainers.base import Trainer, TrainerContext
from puridiver.trainers.schedule import FEWEST_ROWS, in_batches, rounded_up
from puridiver.trainers.split import (
    CLEAN,
    RELABEL,
    SPLIT_OPTIONS,
    UNLABELLED,
    Sets,
    Split,
    prediction_weights,
    split_memory,
)

_DISTANCES = {"softmax_l2": equations.consistency_distances, "logit_mse": equations.logit_distances}


@dataclass(frozen=True)
class EpochPlan:
    """Which memory rows each step of a part of an epoch takes: (steps, rows), sorted C, R, U.

    The first `n_clean` columns are clean in every step; the last `n_tail` hold the unlabelled ones.
    """

    rows: Tensor
    n_clean: int
    n_tail: int


@dataclass(frozen=True)
class PassShape:
    """What a step's one forward pass is made of. Its rows are sorted C, R, U; then some come a second time:

        | C | R | U |  U, weak view  |  R, weak view  |
        |<- rows -->|<--- tail ----->|<- predicted -->|
        |<-head>|                                          head = rows - tail
        |<mixed>|                                          by CutMix: C and R, or C alone (row 21)

    Where the sets are spread over the steps (`proportional_plans`) the borders of C, R and U differ by a row from step
    to step: the tail is as long as the longest U, so that it may begin with a row of R, which then keeps the target
    from before the epoch. Rows 21 and 22 are those of docs/fidelity.md.
    """

    rows: int
    tail: int
    mixed: int
    predicted: int  # in the step itself (row 22)

    @property
    def head(self) -> int:
        return self.rows - self.tail

    @property
    def again(self) -> slice:
        """The rows that are predicted in the step: the last of the head."""
        return slice(self.head - self.predicted, self.head)


class Held(Protocol):
    """What a step reads of the memory, by name, a row each: views, weak, targets, unlabelled, labels and weights."""

    def __getitem__(self, name: str, /) -> Tensor: ...


class PuriDivERTrainer(Trainer):
    """Splits the memory anew before every epoch and gives each set its own loss."""

    name = "puridiver"
    title = "PuriDivER"
    summary = "clean / re-label / unlabelled split by two mixtures; soft re-labelling and consistency"
    own_options: ClassVar[Mapping[str, Option]] = {
        **SPLIT_OPTIONS,
        "relabel_weight": Option(
            "uncertainty",
            "Eq. 8's weight of the prediction: the uncertainty mixture's posterior, or one minus an arbitrary "
            "component of the loss mixture [row 5], either as often, or the clean one as often as there are clean "
            "samples [row 28]",
            ("uncertainty", "unsorted_loss", "unsorted_loss_by_share"),
        ),
        "relabel_view": Option(
            "before_epoch",
            "what Eq. 8 predicts from: the plain images before each epoch, or weak views in the step itself [row 22]",
            ("before_epoch", "in_step"),
        ),
        "consistency_distance": Option("softmax_l2", "distance of Eq. 10 [row 6]", ("softmax_l2", "logit_mse")),
        "loss_weights": Option(
            "equation", "Eq. 11 as printed, or each loss by its share of the batch [row 7]", ("equation", "batch_share")
        ),
        "eta": Option(1.0, "weight of the consistency loss in Eq. 11", low=0),
        "smallest_set": Option(
            0, "with this many samples or fewer in R or U the epoch is plain cross-entropy (0: never) [row 8]", low=0
        ),
        "fewest_clean": Option(
            0.0, "with a smaller share of clean samples the epoch is plain cross-entropy (0: never)", low=0, high=1
        ),
        "set_batches": Option(
            "proportional",
            "a batch of `batch_size` from C, R and U in proportion, or `batch_size` from C plus R and U scaled so "
            "that an epoch passes each once [row 9], rounded up, or by their share of C, rounded down [row 29]",
            ("proportional", "clean_full", "clean_full_by_share"),
        ),
        "cutmix_sets": Option("labelled", "apply CutMix to C and R, or to C alone [row 21]", ("labelled", "clean")),
        "warmup_epochs": Option(0, "plain epochs of each consolidation before the split [row 11]", low=0),
    }

    def __init__(self, context: TrainerContext) -> None:
        super().__init__(context)
        self._run_sets = PlanRunner(self.runtime, self._set_step)
        self._divide = Captured(self.runtime, self._split_memory)

    def memory_epoch(self, memory: Samples, epoch: int) -> None:
        o = self.options
        logits = self.outputs(memory.images).logits
        split = self.split = self._divide(logits, memory.labels, memory.arrivals, memory.checked)
        self.runtime.wait()  # the sets' sizes decide the shapes of the epoch
        sets = self.sets = split.sets()
        if epoch < o.warmup_epochs or not (o.relabel or o.consistency) or self._too_small(sets):
            self.plain_epoch(memory)
            return
        plans = _PLANNERS[o.set_batches](sets.codes, o.batch_size, self.generator, self.trains_rest)
        version = self._hold(memory, split, [self._shape(plan) for plan in plans])
        whole, *rest = plans
        self._run_sets(*self._steps(whole), version)
        for plan in rest:  # the sizes of its sets are others in every epoch
            self._run_sets.once(*self._steps(plan), version)

    def _hold(self, memory: Samples, split: Split, shapes: list[PassShape]) -> tuple[int, ...]:
        """Put what the steps of an epoch read where they find it; the version of that."""
        predicted = any(shape.predicted for shape in shapes)
        views = self.next_memory_view(memory)
        weak = self.weak_view(memory.images) if predicted or any(shape.tail for shape in shapes) else memory.images
        weights = prediction_weights(split, self.options, self.generator)
        targets = equations.refurbish(weights, split.p_model, memory.labels)
        held = {"views": views, "weak": weak, "targets": targets, "unlabelled": split.unlabelled}
        if predicted:
            held |= {"labels": memory.labels, "weights": weights}
        for name, value in held.items():
            self.buffers.put(name, value)
        return self.version(*held)

    def _steps(self, plan: EpochPlan) -> tuple[Tensor, PassShape]:
        """A plan with a draw of CutMix for each step, and the shape of its steps."""
        shape = self._shape(plan)
        return torch.cat([plan.rows, self.cutmix_plan(len(plan.rows), shape.mixed, self.options.cutmix)], dim=1), shape

    def _shape(self, plan: EpochPlan) -> PassShape:
        o, n = self.options, plan.rows.shape[1]
        n_head = n - plan.n_tail
        mixed = n_head if o.cutmix_sets == "labelled" else plan.n_clean
        return PassShape(n, plan.n_tail, mixed, n_head - plan.n_clean if o.relabel_view == "in_step" else 0)

    def _too_small(self, sets: Sets) -> bool:
        """Row 8, and the case that nothing is left to learn labels from."""
        n_clean, n_relabel, n_unlabelled = sets.sizes()
        used = [n_relabel] * self.options.relabel + [n_unlabelled] * self.options.consistency
        if self.options.smallest_set and min(used) <= self.options.smallest_set:
            return True
        n = n_clean + n_relabel + n_unlabelled
        return n_clean < 2 or n_clean < self.options.fewest_clean * n

    def _split_memory(self, logits: Tensor, labels: Tensor, arrivals: Tensor, checked: Tensor) -> Split:
        return split_memory(logits, labels, arrivals, checked, self.options)

    def _set_step(self, row: Tensor, shape: PassShape, version: object) -> None:
        self.step(0, self._loss(self.buffers, row[: shape.rows], row[shape.rows :], shape))

    def _loss(self, held: Held, rows: Tensor, cutmix: Tensor, shape: PassShape) -> Tensor:
        """Equation 11 on one batch."""
        n, n_head = shape.rows, shape.head
        strong, tail = held["views"][rows], rows[n_head:]
        views = [augment.planned_cut(strong[: shape.mixed], cutmix), strong[shape.mixed :], held["weak"][tail]]
        if shape.predicted:
            views.append(held["weak"][rows[shape.again]])
        logits, kept = self.distilled(0, self.to_float(torch.cat(views)))
        targets = self._targets(held, rows, logits[n + shape.tail :], shape)
        mixed = augment.planned_shares(targets[: shape.mixed], cutmix, strong.shape[2] * strong.shape[3])
        losses = equations.soft_cross_entropy(logits[:n], torch.cat([mixed, targets[shape.mixed :]]))
        distances = _DISTANCES[self.options.consistency_distance](logits[n_head:n], logits[n : n + shape.tail])
        in_u = held["unlabelled"][rows]
        l_cls = equations.classification_loss(losses, ~in_u)
        l_reg = equations.consistency_loss(distances, in_u[n_head:])
        if self.options.loss_weights == "batch_share":
            share = in_u.float().mean()
            l_cls, l_reg = (1 - share) * l_cls, share * l_reg
        return equations.total_loss(l_cls, l_reg, self.options.eta) + kept

    def _targets(self, held: Held, rows: Tensor, predicted: Tensor, shape: PassShape) -> Tensor:
        """Eq. 8 on a batch: from before the epoch, or with what the pass itself predicts of weak views (row 22)."""
        targets = held["targets"][rows]
        if not shape.predicted:
            return targets
        again = rows[shape.again]
        now = equations.refurbish(held["weights"][again], predicted.detach().softmax(dim=1), held["labels"][again])
        return torch.cat([targets[: shape.again.start], now, targets[shape.again.stop :]])


def _shuffled(codes: Tensor, code: int, generator: torch.Generator) -> Tensor:
    """The rows of a set in random order."""
    rows = (codes == code).nonzero().squeeze(1)
    return rows[torch.randperm(len(rows), generator=generator)]


def proportional_plans(
    codes: Tensor, batch_size: int, generator: torch.Generator, with_rest: bool = False
) -> list[EpochPlan]:
    """Batches of `batch_size` in which C, R and U have their share of the memory, each to within one sample.

    `codes` (on the host) tells the set of each memory row. With `with_rest` a second plan has what fills no batch.
    """
    everything = torch.cat([_shuffled(codes, code, generator) for code in (CLEAN, RELABEL, UNLABELLED)])
    # What fills no batch is drawn from all, not always from the end.
    order = torch.randperm(len(everything), generator=generator)
    return [_spread(everything, part, codes) for part in in_batches(order, batch_size, with_rest)]


def _spread(everything: Tensor, part: Tensor, codes: Tensor) -> EpochPlan:
    """Of the rows, sorted C, R, U, those at the places in `part`, (steps, size): each set spread over the steps."""
    steps, size = part.shape
    rows = everything[part.flatten().sort().values].view(size, steps).T.contiguous()  # sorted C, R, U in each batch
    n_clean, n_tail = (codes[rows] == CLEAN).sum(dim=1).min(), (codes[rows] == UNLABELLED).sum(dim=1).max()
    return EpochPlan(rows, int(n_clean), int(n_tail))


def clean_full_plans(
    codes: Tensor, batch_size: int, generator: torch.Generator, with_rest: bool = False
) -> list[EpochPlan]:
    """`batch_size` clean samples a step; R and U batches so large that an epoch passes each once (at least 2).

    Their sizes are rounded up to even numbers, and above 12 to multiples of 4, so that few shapes occur and few steps
    need to be captured. With `with_rest` a second plan has one step more: the clean samples that fill no batch, even
    a single one if others join it, and R and U as in the steps before.
    """
    return _clean_full(codes, batch_size, generator, with_rest, by_share=False)


def clean_full_plans_by_share(
    codes: Tensor, batch_size: int, generator: torch.Generator, with_rest: bool = False
) -> list[EpochPlan]:
    """The same with R and U batches by the share of each set in C, rounded down (at least 2), as released (row 29).

    An epoch may leave some of R and U out, and their losses weigh less. More shapes occur, so more steps are captured.
    """
    return _clean_full(codes, batch_size, generator, with_rest, by_share=True)


def _clean_full(
    codes: Tensor, batch_size: int, generator: torch.Generator, with_rest: bool, by_share: bool
) -> list[EpochPlan]:
    clean, relabel, unlabelled = (_shuffled(codes, code, generator) for code in (CLEAN, RELABEL, UNLABELLED))
    fewest = 1 if len(relabel) or len(unlabelled) else FEWEST_ROWS
    parts = in_batches(clean, batch_size, with_rest, fewest)
    steps = [len(part) for part in parts]

    def size_of(rows: Tensor) -> int:
        n = len(rows)
        return max(2, n * batch_size // len(clean)) if by_share else rounded_up(-(-n // sum(steps)))

    others = (_cycled(rows, sum(steps), size_of(rows)).split(steps) for rows in (relabel, unlabelled))
    return [
        EpochPlan(torch.cat(sets, dim=1), n_clean=sets[0].shape[1], n_tail=sets[2].shape[1])
        for sets in zip(parts, *others, strict=True)
    ]


def _cycled(rows: Tensor, steps: int, size: int) -> Tensor:
    """Batches of so many rows, or of all if there are fewer, (steps, size): after the last the rows begin again."""
    size = min(len(rows), size)
    cycles = -(-steps * size // max(1, len(rows)))
    return rows.repeat(cycles)[: steps * size].view(steps, size)


_PLANNERS = {
    "proportional": proportional_plans,
    "clean_full": clean_full_plans,
    "clean_full_by_share": clean_full_plans_by_share,
}

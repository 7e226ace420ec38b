"""PuriDivER's trainer: clean samples as given, sure noisy ones re-labelled, the rest unlabelled (Eqs. 4 to 11)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from puridiver import augment, equations
from puridiver.plans import Captured, PlanRunner
from puridiver.samples import Samples
from puridiver.trainers.base import Trainer, TrainerContext
from puridiver.trainers.split import CLEAN, RELABEL, UNLABELLED, Sets, Split, prediction_weights, split_memory

_DISTANCES = {"softmax_l2": equations.consistency_distances, "logit_mse": equations.logit_distances}


@dataclass(frozen=True)
class EpochPlan:
    """Which memory rows each step takes: (steps, rows), sorted C, R, U.

    The first `n_clean` columns are clean in every step; the last `n_tail` hold the unlabelled ones.
    """

    rows: Tensor
    n_clean: int
    n_tail: int


@dataclass(frozen=True)
class PassShape:
    """Of the rows of a step, how many unlabelled ones come last, how many CutMix mixes at the front, and before the
    unlabelled ones how many are predicted in the step itself (row 22)."""

    rows: int
    tail: int
    mixed: int
    predicted: int


class Held(Protocol):
    """What a step reads of the memory, by name, a row each: views, weak, targets, unlabelled, labels and weights."""

    def __getitem__(self, name: str, /) -> Tensor: ...


class PuriDivERTrainer(Trainer):
    """Splits the memory anew before every epoch and gives each set its own loss."""

    name = "puridiver"
    title = "PuriDivER"
    summary = "clean / re-label / unlabelled split by two mixtures; soft re-labelling and consistency"

    def __init__(self, context: TrainerContext) -> None:
        super().__init__(context)
        self._run_sets = PlanRunner(self.runtime, self._set_step)
        self._divide = Captured(self.runtime, self._split_memory)

    def memory_epoch(self, memory: Samples, epoch: int) -> None:
        o = self.options
        split = self.split = self._divide(self.outputs(memory.images).logits, memory.labels, memory.arrivals)
        self.runtime.wait()  # the sets' sizes decide the shapes of the epoch
        sets = self.sets = split.sets()
        if epoch < o.warmup_epochs or not (o.relabel or o.consistency) or self._too_small(sets):
            self.plain_epoch(memory)
            return
        plan = _PLANNERS[o.set_batches](sets.codes, o.batch_size, self.generator)
        shape = self._shape(plan)
        views = self.next_memory_view(memory)
        weak = self.weak_view(memory.images) if shape.tail or shape.predicted else memory.images
        weights = prediction_weights(split, o, self.generator)
        targets = equations.refurbish(weights, split.p_model, memory.labels)
        held = {"views": views, "weak": weak, "targets": targets, "unlabelled": split.unlabelled}
        if shape.predicted:
            held |= {"labels": memory.labels, "weights": weights}
        for name, value in held.items():
            self.buffers.put(name, value)
        cutmix = self.cutmix_plan(len(plan.rows), shape.mixed, o.cutmix)
        self._run_sets(torch.cat([plan.rows, cutmix], dim=1), shape, self.version(*held))

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
        return n_clean < 2

    def _split_memory(self, logits: Tensor, labels: Tensor, arrivals: Tensor) -> Split:
        return split_memory(logits, labels, arrivals, self.options)

    def _set_step(self, row: Tensor, shape: PassShape, version: object) -> None:
        self.step(0, self._loss(self.buffers, row[: shape.rows], row[shape.rows :], shape))

    def _loss(self, held: Held, rows: Tensor, cutmix: Tensor, shape: PassShape) -> Tensor:
        """Equation 11 on one batch: one forward pass over [labelled | tail strong | tail weak | predicted weak]."""
        n, n_head = shape.rows, shape.rows - shape.tail
        strong, tail = held["views"][rows], rows[n_head:]
        views = [augment.planned_cut(strong[: shape.mixed], cutmix), strong[shape.mixed :], held["weak"][tail]]
        if shape.predicted:
            views.append(held["weak"][rows[n_head - shape.predicted : n_head]])
        logits = self.trainees[0].logits(self.to_float(torch.cat(views)))
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
        return equations.total_loss(l_cls, l_reg, self.options.eta)

    def _targets(self, held: Held, rows: Tensor, predicted: Tensor, shape: PassShape) -> Tensor:
        """Eq. 8 on a batch: from before the epoch, or with what the pass itself predicts of weak views (row 22)."""
        targets = held["targets"][rows]
        if not shape.predicted:
            return targets
        n_head = shape.rows - shape.tail
        again = rows[n_head - shape.predicted : n_head]
        now = equations.refurbish(held["weights"][again], predicted.detach().softmax(dim=1), held["labels"][again])
        return torch.cat([targets[: n_head - shape.predicted], now, targets[n_head:]])


def _shuffled(codes: Tensor, code: int, generator: torch.Generator) -> Tensor:
    """The rows of a set in random order."""
    rows = (codes == code).nonzero().squeeze(1)
    return rows[torch.randperm(len(rows), generator=generator)]


def proportional_plan(codes: Tensor, batch_size: int, generator: torch.Generator) -> EpochPlan:
    """Batches of `batch_size` in which C, R and U have their share of the memory, each to within one sample.

    `codes` (on the host) tells the set of each memory row.
    """
    everything = torch.cat([_shuffled(codes, code, generator) for code in (CLEAN, RELABEL, UNLABELLED)])
    size = min(batch_size, len(everything))
    steps = len(everything) // size
    # A rest that fills no batch is left out at random, not always from the end.
    kept = torch.randperm(len(everything), generator=generator)[: steps * size].sort().values
    rows = everything[kept].view(size, steps).T.contiguous()  # sorted C, R, U within each batch
    n_clean, n_tail = (codes[rows] == CLEAN).sum(dim=1).min(), (codes[rows] == UNLABELLED).sum(dim=1).max()
    return EpochPlan(rows, int(n_clean), int(n_tail))


def clean_full_plan(codes: Tensor, batch_size: int, generator: torch.Generator) -> EpochPlan:
    """`batch_size` clean samples a step; R and U batches so large that an epoch passes each once (at least 2).

    Their sizes are rounded up to even numbers, and above 12 to multiples of 4, so that few shapes occur and few steps
    need to be captured.
    """
    clean, relabel, unlabelled = (_shuffled(codes, code, generator) for code in (CLEAN, RELABEL, UNLABELLED))
    size = min(batch_size, len(clean))
    steps = len(clean) // size
    parts = [clean[: steps * size].view(steps, size)]
    for rows in (relabel, unlabelled):
        per_step = min(len(rows), _rounded_up(-(-len(rows) // steps)))
        cycles = -(-steps * per_step // max(1, len(rows)))
        parts.append(rows.repeat(cycles)[: steps * per_step].view(steps, per_step))
    return EpochPlan(torch.cat(parts, dim=1), size, parts[2].shape[1])


def _rounded_up(n: int) -> int:
    """The next even number, from 12 on the next multiple of 4; at least 2."""
    multiple = 2 if n <= 12 else 4
    return max(2, -(-n // multiple) * multiple)


_PLANNERS = {"proportional": proportional_plan, "clean_full": clean_full_plan}

"""PuriDivER's trainer: clean samples as given, sure noisy ones re-labelled, the rest unlabelled (Eqs. 4 to 11)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from puridiver import augment, equations
from puridiver.plans import Captured, PlanRunner
from puridiver.samples import Samples
from puridiver.trainers.base import Trainer, TrainerContext
from puridiver.trainers.split import CLEAN, RELABEL, UNLABELLED, Sets, Split, refurbished_targets, split_memory

_DISTANCES = {"softmax_l2": equations.consistency_distances, "logit_mse": equations.logit_distances}


@dataclass(frozen=True)
class EpochPlan:
    """Which memory rows each step takes: (steps, rows); the last `n_tail` columns hold the unlabelled ones."""

    rows: Tensor
    n_tail: int


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
        self.buffers.put("views", self.next_strong_view(memory))
        self.buffers.put("weak", self.weak_view(memory.images) if plan.n_tail else memory.images)
        self.buffers.put("targets", refurbished_targets(split, memory.labels, o, self.generator))
        self.buffers.put("unlabelled", split.unlabelled)
        steps, n = plan.rows.shape
        cutmix = self.cutmix_plan(steps, n - plan.n_tail, o.cutmix)
        self._run_sets(
            torch.cat([plan.rows, cutmix], dim=1),
            n,
            plan.n_tail,
            self.version("views", "weak", "targets", "unlabelled"),
        )

    def _too_small(self, sets: Sets) -> bool:
        """Row 8, and the case that nothing is left to learn labels from."""
        n_clean, n_relabel, n_unlabelled = sets.sizes()
        used = [n_relabel] * self.options.relabel + [n_unlabelled] * self.options.consistency
        if self.options.smallest_set and min(used) <= self.options.smallest_set:
            return True
        return n_clean < 2

    def _split_memory(self, logits: Tensor, labels: Tensor, arrivals: Tensor) -> Split:
        return split_memory(logits, labels, arrivals, self.options)

    def _set_step(self, row: Tensor, n: int, n_tail: int, version: object) -> None:
        b = self.buffers
        loss = self._loss(b["unlabelled"], b["targets"], b["views"], b["weak"], row[:n], row[n:], n_tail)
        self.step(0, loss)

    def _loss(
        self,
        unlabelled: Tensor,
        targets: Tensor,
        strong: Tensor,
        weak: Tensor,
        rows: Tensor,
        cutmix: Tensor,
        n_tail: int,
    ) -> Tensor:
        """Equation 11 on one batch: one forward pass over [labelled | tail strong | tail weak]."""
        n, n_head = len(rows), len(rows) - n_tail
        head, tail = rows[:n_head], rows[n_head:]
        images, head_targets = augment.planned_cutmix(strong[head], targets[head], cutmix)
        logits = self.trainees[0].logits(self.to_float(torch.cat([images, strong[tail], weak[tail]])))
        losses = equations.soft_cross_entropy(logits[:n], torch.cat([head_targets, targets[tail]]))
        distances = _DISTANCES[self.options.consistency_distance](logits[n_head:n], logits[n:])
        in_u = unlabelled[rows]
        l_cls = equations.classification_loss(losses, ~in_u)
        l_reg = equations.consistency_loss(distances, in_u[n_head:])
        if self.options.loss_weights == "batch_share":
            share = in_u.float().mean()
            l_cls, l_reg = (1 - share) * l_cls, share * l_reg
        return equations.total_loss(l_cls, l_reg, self.options.eta)


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
    return EpochPlan(rows, int((codes[rows] == UNLABELLED).sum(dim=1).max()))


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
    return EpochPlan(torch.cat(parts, dim=1), parts[2].shape[1])


def _rounded_up(n: int) -> int:
    """The next even number, from 12 on the next multiple of 4; at least 2."""
    multiple = 2 if n <= 12 else 4
    return max(2, -(-n // multiple) * multiple)


_PLANNERS = {"proportional": proportional_plan, "clean_full": clean_full_plan}

"""PuriDivER's trainer: clean samples as given, sure noisy ones re-labelled, the rest unlabelled (Eqs. 4 to 11)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from puridiver import equations
from puridiver.samples import Samples
from puridiver.trainers.base import Trainer
from puridiver.trainers.split import Split, refurbished_targets, split_memory

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

    def memory_epoch(self, memory: Samples, epoch: int) -> None:
        o = self.options
        logits = self.outputs(memory.images).logits
        split = self.split = split_memory(logits, memory.labels, memory.arrivals, o)
        in_use = o.relabel or o.consistency
        if epoch < o.warmup_epochs or not in_use or self._too_small(split):
            self.plain_epoch(memory)
            return
        targets = refurbished_targets(split, memory.labels, o, self.generator)
        plan = _PLANNERS[o.set_batches](split, o.batch_size, self.generator)
        strong = self.strong_view(memory.images)
        weak = self.weak_view(memory.images) if plan.n_tail else strong
        for rows in plan.rows.to(strong.device):
            self.step(0, self._loss(split, targets, strong, weak, rows, plan.n_tail))

    def _too_small(self, split: Split) -> bool:
        """Row 8, and the case that nothing is left to learn labels from."""
        n_clean, n_relabel, n_unlabelled = split.sizes()
        used = [n_relabel] * self.options.relabel + [n_unlabelled] * self.options.consistency
        if self.options.smallest_set and min(used) <= self.options.smallest_set:
            return True
        return n_clean < 2

    def _loss(self, split: Split, targets: Tensor, strong: Tensor, weak: Tensor, rows: Tensor, n_tail: int) -> Tensor:
        """Equation 11 on one batch: one forward pass over [labelled | tail strong | tail weak]."""
        n, head, tail = len(rows), rows[: len(rows) - n_tail], rows[len(rows) - n_tail :]
        x, t = self.maybe_cutmix(self.to_float(strong[head]), targets[head], self.options.cutmix)
        x = torch.cat([x, self.to_float(strong[tail]), self.to_float(weak[tail])])
        logits = self.networks[0].train()(x).float()
        losses = equations.soft_cross_entropy(logits[:n], torch.cat([t, targets[tail]]))
        distances = _DISTANCES[self.options.consistency_distance](logits[n - n_tail : n], logits[n:])
        unlabelled = split.unlabelled[rows]
        l_cls = equations.classification_loss(losses, ~unlabelled)
        l_reg = equations.consistency_loss(distances, unlabelled[n - n_tail :])
        if self.options.loss_weights == "batch_share":
            share = unlabelled.float().mean()
            l_cls, l_reg = (1 - share) * l_cls, share * l_reg
        return equations.total_loss(l_cls, l_reg, self.options.eta)


def _shuffled(mask: Tensor, generator: torch.Generator) -> Tensor:
    """The rows of a set in random order, on the host."""
    rows = mask.nonzero().squeeze(1).cpu()
    return rows[torch.randperm(len(rows), generator=generator)]


def proportional_plan(split: Split, batch_size: int, generator: torch.Generator) -> EpochPlan:
    """Batches of `batch_size` in which C, R and U have their share of the memory, each to within one sample."""
    sets = [_shuffled(mask, generator) for mask in (split.clean, split.relabel, split.unlabelled)]
    everything = torch.cat(sets)
    size = min(batch_size, len(everything))
    steps = len(everything) // size
    # A rest that fills no batch is left out at random, not always from the end.
    kept = torch.randperm(len(everything), generator=generator)[: steps * size].sort().values
    rows = everything[kept].view(size, steps).T.contiguous()  # sorted C, R, U within each batch
    n_tail = int(split.unlabelled.cpu()[rows].sum(dim=1).max())
    return EpochPlan(rows, n_tail)


def clean_full_plan(split: Split, batch_size: int, generator: torch.Generator) -> EpochPlan:
    """`batch_size` clean samples a step; R and U batches so large that an epoch passes each once (at least 2)."""
    clean, relabel, unlabelled = (_shuffled(m, generator) for m in (split.clean, split.relabel, split.unlabelled))
    size = min(batch_size, len(clean))
    steps = len(clean) // size
    parts = [clean[: steps * size].view(steps, size)]
    for rows in (relabel, unlabelled):
        per_step = min(len(rows), max(2, -(-len(rows) // steps)))
        cycles = -(-steps * per_step // max(1, len(rows)))
        parts.append(rows.repeat(cycles)[: steps * per_step].view(steps, per_step))
    return EpochPlan(torch.cat(parts, dim=1), parts[2].shape[1])


_PLANNERS = {"proportional": proportional_plan, "clean_full": clean_full_plan}

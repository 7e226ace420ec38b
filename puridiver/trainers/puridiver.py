"""PuriDivER's trainer: clean samples as given, sure noisy ones re-labelled, the rest unlabelled (Eqs. 4 to 11)."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from puridiver import equations
from puridiver.memory import Samples
from puridiver.options import Option
from puridiver.runtime.plans import captured
from puridiver.trainers.base import Trainer, TrainerContext
from puridiver.trainers.batches import EpochPlan, clean_full_plans, proportional_plans
from puridiver.trainers.split import SPLIT_OPTIONS, Sets, Split, prediction_weights, split_memory

_DISTANCES = {"softmax_l2": equations.consistency_distances, "logit_mse": equations.logit_distances}
_PLANNERS: dict[str, Callable[..., list[EpochPlan]]] = {
    "proportional": proportional_plans,
    "clean_full": clean_full_plans,
    "clean_full_by_share": partial(clean_full_plans, by_share=True),
}


class PassShape(NamedTuple):
    """What a step's one forward pass is made of. Its rows are sorted C, R, U; then some come a second time:

        | C | R | U |  U, weak view  |  R, weak view  |
        |<- rows -->|<--- tail ----->|<- predicted -->|
        |<-head>|                                          head = rows - tail
        |<mixed>|                                          by CutMix: C and R, or C alone (row 21)

    Where the sets are spread over the steps (`proportional_plans`) the borders of C, R and U differ by a row from step
    to step: the tail is as long as the longest U, so that it may begin with a row of R, which then keeps the target
    from before the epoch.
    """

    rows: int
    tail: int
    mixed: int
    predicted: int  # in the step itself (row 22)


class PuriDivERTrainer(Trainer):
    """Splits the memory anew before every epoch and gives each set its own loss."""

    name = "puridiver"
    title = "PuriDivER"
    summary = "clean / re-label / unlabelled split by two mixtures; soft re-labelling and consistency"
    own_options = {
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
        self._divide = captured(self.runtime, partial(split_memory, options=self.options))

    def memory_epoch(self, memory: Samples, epoch: int) -> None:
        o = self.options
        logits = self.models[0].outputs(memory.images).logits
        split = self._divide(logits, memory.labels, memory.arrivals, memory.checked)
        self.runtime.wait()  # the sets' sizes decide the shapes of the epoch
        sets = self.sets = split.sets()
        if epoch < o.warmup_epochs or not (o.relabel or o.consistency) or self._too_small(sets):
            self.plain_epoch(memory)
            return
        plans = _PLANNERS[o.set_batches](sets.codes, o.batch_size, self.generator, o.last_batch == "trained")
        shapes = [self._shape(plan) for plan in plans]
        self._hold(memory, split, any(shape.predicted or shape.tail for shape in shapes))
        for plan, shape in zip(plans, shapes, strict=True):
            cutmix = self.augmentation.mixing_plan(len(plan.rows), shape.mixed, o.cutmix, self.generator)
            self.run_plan(self._set_step, torch.cat([plan.rows, cutmix], dim=1), shape)

    def _too_small(self, sets: Sets) -> bool:
        """Row 8, and the case that nothing is left to learn labels from."""
        n_clean, n_relabel, n_unlabelled = sets.sizes()
        used = [n_relabel] * self.options.relabel + [n_unlabelled] * self.options.consistency
        if self.options.smallest_set and min(used) <= self.options.smallest_set:
            return True
        return n_clean < max(2, self.options.fewest_clean * len(sets.codes))

    def _shape(self, plan: EpochPlan) -> PassShape:
        o, n = self.options, plan.rows.shape[1]
        n_head = n - plan.n_tail
        mixed = n_head if o.cutmix_sets == "labelled" else plan.n_clean
        return PassShape(n, plan.n_tail, mixed, n_head - plan.n_clean if o.relabel_view == "in_step" else 0)

    def _hold(self, memory: Samples, split: Split, needs_weak: bool) -> None:
        """Put what the steps of an epoch read into the buffers, a row for each memory sample."""
        views = self.next_memory_view(memory)
        weak = self.augmentation.weak(memory.images, self.generator) if needs_weak else memory.images
        weights = prediction_weights(split, self.options, self.generator)
        held = {
            "views": views, "weak": weak, "labels": memory.labels, "weights": weights,
            "targets": equations.refurbish(weights, split.p_model, memory.labels), "unlabelled": split.unlabelled,
        }  # fmt: skip
        for name, value in held.items():
            self.buffers.put(name, value)

    def _set_step(self, row: Tensor, shape: PassShape) -> None:
        self.models[0].step(self._loss(self.buffers, row[: shape.rows], row[shape.rows :], shape))

    def _loss(self, held: Mapping[str, Tensor], rows: Tensor, cutmix: Tensor, shape: PassShape) -> Tensor:
        """Equation 11 on one batch; `held` has what `_hold` has put there."""
        n, n_tail, n_mixed, n_predicted = shape
        n_head = n - n_tail
        again = rows[n_head - n_predicted : n_head]  # the last of the head are predicted in the step
        strong, weak = held["views"][rows], held["weak"]
        views = [self.augmentation.mix(strong[:n_mixed], cutmix), strong[n_mixed:], weak[rows[n_head:]], weak[again]]
        logits = self.models[0].logits(torch.cat(views))
        targets = held["targets"][rows]
        if n_predicted:
            p_model = logits[n + n_tail :].detach().softmax(dim=1)
            now = equations.refurbish(held["weights"][again], p_model, held["labels"][again])
            targets = torch.cat([targets[: n_head - n_predicted], now, targets[n_head:]])
        mixed = self.augmentation.share(targets[:n_mixed], cutmix)
        losses = equations.soft_cross_entropy(logits[:n], torch.cat([mixed, targets[n_mixed:]]))
        distances = _DISTANCES[self.options.consistency_distance](logits[n_head:n], logits[n : n + n_tail])
        in_u = held["unlabelled"][rows]
        l_cls = equations.classification_loss(losses, ~in_u)
        l_reg = equations.consistency_loss(distances, in_u[n_head:])
        if self.options.loss_weights == "batch_share":
            share = in_u.float().mean()
            l_cls, l_reg = (1 - share) * l_cls, share * l_reg
        return equations.total_loss(l_cls, l_reg, self.options.eta)

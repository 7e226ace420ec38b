"""CNLL's trainer (Karim et al., "CNLL: a semi-supervised approach for continual noisy label learning", CVPRW 2022)."""

import torch
from torch import Tensor

from puridiver import augment
from puridiver.equations import purified
from puridiver.memory import Samples
from puridiver.options import Option
from puridiver.trainers.base import Trainer
from puridiver.trainers.dividemix import SMALLEST_SET, DivideMix, mixmatch_loss, mixmatch_plans, ramp, sharpen
from puridiver.trainers.online import StreamBatch

LABELLED_EPOCHS = 5  # before the unlabelled loss begins to grow


class SemiSupervised(Trainer):
    """Learns purified samples with their labels and the others without, by MixMatch.

    The network divides what the sampler gets at a time (with the sampler `cnll`, a delay buffer), once it has learnt
    from it online. Each sample keeps the verdict. Guesses come from weak views, and unlabelled samples are learnt from
    strong ones. Its authors train five epochs on each delay buffer instead of online.
    """

    name = "cnll"
    title = "CNLL"
    summary = "CNLL: purified samples with their labels, the others with sharpened guesses, by MixMatch"
    own_options = {
        "cnll_unlabelled_weight": Option(3.0, "final weight of the unlabelled loss", low=0),
        **{name: DivideMix.own_options[name] for name in ("sharpen", "mixup_alpha", "ramp_epochs")},
    }

    def observe(self, batch: StreamBatch) -> Tensor:
        loss = super().observe(batch)
        self.vectors = torch.zeros(len(batch.labels), 1, device=batch.labels.device)  # 1 once a sample is purified
        return loss

    def on_candidates(self, pool: Samples, n_old: int) -> None:
        if pool.vectors is not None:
            logits = self.models[0].outputs(pool.images[n_old:]).logits
            pool.vectors[n_old:, 0] = purified(logits, pool.labels[n_old:]).float()

    def memory_view(self, images: Tensor) -> Tensor:
        """The weak view."""
        return self.augmentation.moved(images, self.generator)

    def memory_epoch(self, memory: Samples, epoch: int) -> None:
        clean = torch.ones(len(memory), dtype=torch.bool)
        if memory.vectors is not None:
            clean = self.runtime.read((memory.vectors[:, 0] > 0.5) | memory.checked)
        labelled, unlabelled = clean.nonzero().squeeze(1), (~clean).nonzero().squeeze(1)
        if min(len(labelled), len(unlabelled)) <= SMALLEST_SET:
            self.plain_epoch(memory)
            return
        for i in range(2):
            self.buffers.put(f"weak{i}", self.next_memory_view(memory))
            self.buffers.put(f"strong{i}", self.strong_view(memory.images))
        self.buffers.put("targets", self.one_hot(memory.labels))
        weight = ramp(epoch, LABELLED_EPOCHS, self.options.ramp_epochs, self.options.cnll_unlabelled_weight)
        self.buffers.put("weight", torch.full((), weight, device=self.runtime.device))
        for plan, n_x, n_u in mixmatch_plans(self, labelled, unlabelled):
            self.run_plan(self._mixed_step, plan, n_x, n_u)

    def _mixed_step(self, row: Tensor, n_x: int, n_u: int) -> None:
        x, u, mixup = row[:n_x], row[n_x : n_x + n_u], row[n_x + n_u :]
        model, given = self.models[0], self.buffers["targets"][x]
        with torch.no_grad():
            weak = [model.logits(self.buffers[f"weak{i}"][u]).softmax(dim=1) for i in range(2)]
            guess = sharpen((weak[0] + weak[1]) / 2, self.options.sharpen)
        views = [
            self.buffers[name][rows] for name, rows in (("weak0", x), ("weak1", x), ("strong0", u), ("strong1", u))
        ]
        logits = model.logits(augment.planned_mix(augment.to_float(torch.cat(views)), mixup))
        targets = augment.planned_mix(torch.cat([given, given, guess, guess]), mixup)
        model.step(mixmatch_loss(logits, targets, 2 * n_x, self.buffers["weight"]))

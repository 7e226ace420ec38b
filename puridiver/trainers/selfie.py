"""SELFIE (Song et al., 2019): re-label a sample once the network has kept predicting one class for it."""

import torch
from torch import Tensor

from puridiver.equations import soft_cross_entropy
from puridiver.memory import Samples
from puridiver.options import Option
from puridiver.trainers.base import BASELINE_WARMUP, Trainer

CLASS, TIMES = "steady_class", "steady_times"  # of each sample: what was predicted last, and how often in a row


class Selfie(Trainer):
    """Cross-entropy on labels that are refurbished where the last few predictions agree.

    The predictions are those of the training pass, on augmented images. Predictions on plain images would agree far
    sooner, on a class that the network says of everything, and training on it would confirm it.
    """

    name = "selfie"
    title = "SELFIE"
    summary = "re-labels samples whose last predictions in training all agree, after a warm-up"
    saved_buffers = CLASS, TIMES
    own_options = {
        "baseline_warmup": BASELINE_WARMUP,
        "selfie_history": Option(5, "predictions that must agree before a sample is re-labelled", low=2),
    }

    def begin_consolidation(self, memory: Samples) -> None:
        """What the network said before the stream went on does not count."""
        self.buffers.put(CLASS, torch.full_like(memory.labels, -1))
        self.buffers.put(TIMES, torch.zeros_like(memory.labels))

    def memory_epoch(self, memory: Samples, epoch: int) -> None:
        if epoch < self.options.baseline_warmup:
            self.plain_epoch(memory)
            return
        is_steady = self.buffers[TIMES] >= self.options.selfie_history
        labels = torch.where(is_steady, self.buffers[CLASS], memory.labels)
        self.run_epoch(self._looking_step, memory, self.one_hot(labels))

    def _looking_step(self, row: Tensor, n: int) -> None:
        rows, classes, times = row[:n], self.buffers[CLASS], self.buffers[TIMES]
        images, targets = self.mixed_batch(row, n)
        logits = self.models[0].logits(images)
        said = logits.detach().argmax(dim=1)
        times.index_copy_(0, rows, torch.where(said == classes[rows], times[rows] + 1, 1))
        classes.index_copy_(0, rows, said)
        self.models[0].step(soft_cross_entropy(logits, targets).mean())

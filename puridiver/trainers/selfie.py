"""SELFIE (Song et al., 2019): re-label a sample once the network has kept predicting one class for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from puridiver.equations import soft_cross_entropy
from puridiver.memory import Samples
from puridiver.options import Option
from puridiver.trainers.base import BASELINE_WARMUP, Trainer, TrainerContext

CLASS, TIMES = "steady_class", "steady_times"  # of each sample: what was predicted last, and how often in a row


def steady_labels(classes: Tensor, times: Tensor, labels: Tensor, looks: int) -> Tensor:
    """The predicted class where it was the same in the last `looks` looks, else the label; (N,) each."""
    return torch.where(times >= looks, classes, labels)


class Selfie(Trainer):
    """Cross-entropy on labels that are refurbished where the last few predictions agree.

    A look is the training pass itself, of the augmented batch. Looks at the images as they are would agree far sooner,
    on a class that the network says of everything, and training on it would confirm it.
    """

    name = "selfie"
    title = "SELFIE"
    summary = "re-labels samples whose last predictions in training all agree, after a warm-up"
    own_options: ClassVar[Mapping[str, Option]] = {
        "baseline_warmup": BASELINE_WARMUP,
        "selfie_history": Option(5, "predictions that must agree before a sample is re-labelled", low=2),
    }

    def __init__(self, context: TrainerContext) -> None:
        super().__init__(context)
        self._set_looks(torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64))

    def begin_consolidation(self, memory: Samples) -> None:
        """What the network said before the stream went on does not count."""
        none = torch.zeros(len(memory), dtype=torch.int64)
        self._set_looks(none - 1, none)

    def _set_looks(self, classes: Tensor, times: Tensor) -> None:
        self.buffers.put(CLASS, self.runtime.move(classes))
        self.buffers.put(TIMES, self.runtime.move(times))

    def memory_epoch(self, memory: Samples, epoch: int) -> None:
        if epoch < self.options.baseline_warmup:
            self.plain_epoch(memory)
            return
        labels = steady_labels(self.buffers[CLASS], self.buffers[TIMES], memory.labels, self.options.selfie_history)
        self.run_epoch(self._looking_step, memory, self.one_hot(labels))

    def _looking_step(self, row: Tensor, n: int) -> None:
        rows, classes, times = row[:n], self.buffers[CLASS], self.buffers[TIMES]
        images, targets = self.mixed_batch(row, n)
        logits = self.models[0].logits(images)
        said = logits.detach().argmax(dim=1)
        times.index_copy_(0, rows, torch.where(said == classes[rows], times[rows] + 1, 1))
        classes.index_copy_(0, rows, said)
        self.models[0].step(soft_cross_entropy(logits, targets).mean())

    def state(self) -> dict[str, Tensor]:
        return {**super().state(), CLASS: self.buffers[CLASS], TIMES: self.buffers[TIMES]}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        super().load_state(tensors)
        self._set_looks(tensors[CLASS], tensors[TIMES])

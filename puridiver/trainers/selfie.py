"""SELFIE (Song et al., 2019): re-label a sample once the network has kept predicting one class for it."""

from __future__ import annotations

import torch
from torch import Tensor

from puridiver.samples import Samples
from puridiver.trainers.base import Trainer, TrainerContext


def steady_labels(history: Tensor, labels: Tensor) -> Tensor:
    """The predicted class where all looks in `history` (N, looks) agree (-1: not looked yet), else the label."""
    agreed = (history == history[:, :1]).all(dim=1) & (history[:, 0] >= 0)
    return torch.where(agreed, history[:, 0], labels)


class Selfie(Trainer):
    """Cross-entropy on labels that are refurbished where the last few predictions agree."""

    name = "selfie"
    title = "SELFIE"
    summary = "re-labels samples whose last predictions all agree, after a warm-up"

    def __init__(self, context: TrainerContext) -> None:
        super().__init__(context)
        device = self.runtime.device
        self.history = torch.full((0, self.options.selfie_history), -1, dtype=torch.int64, device=device)
        self.history_of = torch.empty(0, dtype=torch.int64, device=device)  # arrival numbers of its rows

    def begin_consolidation(self, memory: Samples) -> None:
        """Histories follow their samples; newcomers start without one."""
        row_of = {arrival: row for row, arrival in enumerate(self.history_of.tolist())}
        rows = torch.tensor([row_of.get(a, -1) for a in memory.arrivals.tolist()], device=self.runtime.device)
        unseen = torch.full((1, self.options.selfie_history), -1, dtype=torch.int64, device=self.runtime.device)
        self.history = torch.cat([self.history, unseen])[rows]  # row -1 is the unseen one
        self.history_of = memory.arrivals

    def memory_epoch(self, memory: Samples, epoch: int) -> None:
        look = self.outputs(memory.images).logits.argmax(dim=1)
        self.history = torch.cat([self.history[:, 1:], look[:, None]], dim=1)
        labels = memory.labels
        if epoch >= self.options.baseline_warmup:
            labels = steady_labels(self.history, labels)
        self.plain_epoch(memory, self.one_hot(labels))

    def state(self) -> dict[str, Tensor]:
        return {**super().state(), "history": self.history, "history_of": self.history_of}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        super().load_state(tensors)
        self.history = tensors["history"].to(self.runtime.device)
        self.history_of = tensors["history_of"].to(self.runtime.device)

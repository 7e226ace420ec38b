"""Learn what labels probably mean: each sample teaches the classes that its image and its label together suggest."""

from __future__ import annotations

from itertools import zip_longest

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver.memory import Samples
from puridiver.options import Option
from puridiver.trainers.base import StreamBatch, Trainer


class VerdictTrainer(Trainer):
    """Small steps on the stream with soft targets, judged on arrival and kept with what the memory keeps.

    Each step replays other memory samples. Predictions come from a moving average of the weights, which memory
    training continues. For light networks on short streams: there, this learns more per second than long training on
    the memory (`experiments/light-networks`).
    """

    name = "verdict"
    title = "Verdict"
    summary = "soft targets from the verdict on each arriving label; small steps, averaged weights"
    suits = {
        "online_targets": "verdict", "online_average": 0.99, "online_lr": 0.03, "online_steps": 1, "replay": "always",
        "replay_size": 16, "online_cutmix": 0.0, "online_prediction": "network", "snapshots": 1, "cutmix": 0.0,
        "strong": "none", "weight_decay": 5e-4, "lr": 0.02, "schedule": "cosine", "epochs": 15, "batch_size": 32,
        "head": "linear", "stream_batch": 16,
    }  # fmt: skip
    replay_ahead = 1  # what came last is replayed, too
    own_options = {
        "replays": Option(
            3,
            "steps on a stream batch, each joined by other memory samples; a batch of fewer than `replay_size` takes "
            "its share of them",
            low=1,
        ),
    }

    def observe(self, batch: StreamBatch) -> Tensor:
        most, size, replay = self.steps, super().replay_size, batch.replay
        steps = min(most, -(-most * len(batch.labels) // size))
        parts = [] if replay is None else replay.split(-(-len(replay) // most))
        losses = [
            super(VerdictTrainer, self).observe(batch._replace(replay=part))
            for part, _ in zip_longest(parts[:steps], range(steps))
        ]
        return losses[0]

    @property
    def steps(self) -> int:
        return self.options.replays

    @property
    def replay_size(self) -> int:
        return self.steps * super().replay_size

    def to_keep(self, targets: Tensor, logits: Tensor) -> Tensor | None:
        return targets

    def memory_targets(self, memory: Samples) -> Tensor:
        """The targets from their arrival; of samples that have none, or whose label a person has checked, the label."""
        given, kept = self.one_hot(memory.labels), memory.vectors
        if kept is None:
            return given
        kept = F.pad(kept.nan_to_num(), (0, self.n_classes - kept.shape[1]))
        total = kept.sum(dim=1, keepdim=True)  # 0: nothing was kept
        return torch.where(memory.checked[:, None] | (total == 0), given, kept / total.clamp(min=1e-12))

    def memory_epoch(self, memory: Samples, epoch: int) -> None:
        self.plain_epoch(memory)

"""MIR, maximally interfered retrieval (Aljundi et al., NeurIPS 2019)."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from puridiver import augment
from puridiver.options import Option
from puridiver.runtime.model import TrainableModel
from puridiver.runtime.plans import captured
from puridiver.trainers.base import TrainerContext
from puridiver.trainers.er import ExperienceReplay
from puridiver.trainers.online import StreamBatch


def interference(
    model: TrainableModel, images: Tensor, labels: Tensor, others: Tensor, other_labels: Tensor, rate: float
) -> Tensor:
    """l(x; theta - rate * grad l(batch; theta)) - l(x; theta) of each other sample, (N,), in float32.

    bfloat16 would round most of the small step away. BatchNorm goes by its running statistics.
    """
    grads = model.gradients(F.cross_entropy(model.logits(images, train_norm=False), labels))
    network, x = model.network, augment.to_float(others)
    with torch.no_grad():
        now: dict[str, Tensor] = dict(network.named_parameters())
        later = {name: value - rate * grad for (name, value), grad in zip(now.items(), grads, strict=True)}
        logits = [functional_call(network, weights, (x,)).logits for weights in (now, later)]
        before, after = (F.cross_entropy(found.float(), other_labels, reduction="none") for found in logits)
    return after - before


class InterferedReplay(ExperienceReplay):
    """Replays those of some random memory samples whose loss a step on the stream batch alone would raise most."""

    name = "mir"
    title = "MIR"
    summary = "experience replay of the samples that the stream batch would disturb most"
    own_options = {
        "mir_candidates": Option(50, "random memory samples of which those that suffer most are replayed", low=1),
        "mir_rate": Option(0.05, "rate of the step of plain SGD that is tried", low=0),
    }

    def __init__(self, context: TrainerContext) -> None:
        super().__init__(context)
        self._retrieve = captured(self.runtime, self._most_interfered, *self.models, copies=True)

    def replay_size(self, n_stream: int) -> int:
        return max(self.options.mir_candidates, super().replay_size(n_stream))

    def observe(self, batch: StreamBatch) -> Tensor:
        replay = batch.replay
        if replay is not None and len(replay) > super().replay_size(len(batch.images)):
            rows = self._retrieve(batch.images, batch.labels, replay.images, replay.labels)
            batch = batch._replace(replay=replay.take(rows))
        return super().observe(batch)

    def _most_interfered(self, images: Tensor, labels: Tensor, others: Tensor, other_labels: Tensor) -> Tensor:
        """The rows of the other samples that suffer most."""
        scores = interference(self.models[0], images, labels, others, other_labels, self.options.mir_rate)
        return scores.topk(super().replay_size(len(images))).indices

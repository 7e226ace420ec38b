"""Learn what labels probably mean: each sample teaches the classes that its image and its label together suggest."""

import logging
import math
from itertools import zip_longest

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver import augment
from puridiver.memory import Samples
from puridiver.options import Option
from puridiver.recipes import TINY_IMAGE
from puridiver.trainers.base import Trainer, TrainerContext
from puridiver.trainers.online import StreamBatch

logger = logging.getLogger(__name__)

NAMED = "named_labels"  # how many recent labels the network named: on their images, on the mirror images, (2,)
RECENT = 1000  # arrivals
FEWEST_NAMED = 100  # before that many the comparison says little
# By a prototype on the choosing streams, 0 to 60 % noise: photographs of things 0.95 to 1.04, clothes 0.68 to 0.87,
# characters 0.32 to 0.78.
AS_GOOD = 0.9
STANDARD_ERRORS = 2.0  # beyond chance


class VerdictTrainer(Trainer):
    """Small steps on the stream with soft targets, judged on arrival and kept with what the memory keeps.

    Each step replays other memory samples. The network predicts together with a moving average of its weights, which
    memory training continues. For light networks on short streams: there, this learns more per second than long
    training on the memory (`experiments/light-networks`).

    If memory training ends with a network that names less of what the memory teaches than the moving average did
    before, beyond chance, the learner goes on from the average.

    Memory training varies images by a policy. Where the option `flip` is off for such images, it mirrors them all the
    same if the network, before learning what arrives, names labels on mirror images nearly as often as on the images.
    """

    name = "verdict"
    title = "Verdict"
    summary = "soft targets from the verdict on each arriving label; small steps, averaged weights"
    suits = {
        "online_targets": "verdict", "online_average": 0.99, "online_lr": 0.03, "online_steps": 1, "replay": "always",
        "replay_size": 16, "online_cutmix": 0.0, "online_prediction": "weighed", "snapshots": 1, "cutmix": 0.0,
        "strong": "none", "weight_decay": 5e-4, "lr": 0.02, "schedule": "cosine", "epochs": 31, "batch_size": 32,
        "head": "linear", "stream_batch": 16,
        "memory_policy": "autoaugment", "memory_flip": "auto",
    }  # fmt: skip
    replay_ahead = 1  # what came last is replayed, too
    own_options = {
        "replays": Option(
            3,
            "steps on a stream batch, each joined by other memory samples; a batch of fewer than `replay_size` takes "
            "its share of them, joined by as many, at least half of `replay_size`",
            low=1,
        ),
        "memory_policy": Option(
            "strong",
            "policy of memory training, for images of 24 pixels and more; strong: as `strong` says",
            ("strong", *augment.POLICIES),
        ),
        "memory_flip": Option(
            "flip",
            "mirror in memory training; flip: as `flip` says; auto: also where arrivals show that it does no harm",
            ("flip", "auto"),
        ),
    }
    saved_buffers = (NAMED,)

    def __init__(self, context: TrainerContext) -> None:
        super().__init__(context)
        o, shape = self.options, context.input_shape
        policy = o.memory_policy if max(shape[:2]) >= TINY_IMAGE else "none"
        strong = o.strong if o.memory_policy == "strong" else policy
        self.memory_augmentations = {
            flip: augment.augmentation_for(shape, {**o, "strong": strong, "flip": flip}) for flip in (False, True)
        }
        self.buffers.put(NAMED, torch.zeros(2, device=self.runtime.device))

    def observe(self, batch: StreamBatch) -> Tensor:
        self._compare_mirrored(batch)
        replay, steps = batch.replay, self._share_of_steps(len(batch.labels))
        parts = [] if replay is None else replay.split(-(-len(replay) // steps))
        losses = [
            super(VerdictTrainer, self).observe(batch._replace(replay=part))
            for part, _ in zip_longest(parts, range(steps))
        ]
        return losses[0]

    def _compare_mirrored(self, batch: StreamBatch) -> None:
        """Count the labels that the network names before it learns the batch; once in four steps of small ones."""
        o, images, steps = self.options, batch.images, self._share_of_steps(len(batch.labels))
        is_small = len(images) < super().replay_size(len(images))
        if images.ndim == 2 or o.flip or o.memory_flip == "flip" or (is_small and self.models[0].averaged % 4 >= steps):
            return
        logits = self.models[0].outputs(torch.cat([images, images.flip(-1)])).logits
        is_named = logits.argmax(dim=1).view(2, -1) == batch.labels
        kept = (1 - 1 / RECENT) ** len(images)
        self.buffers.put(NAMED, kept * self.buffers[NAMED] + is_named.sum(dim=1))

    @property
    def mirrors(self) -> bool:
        """Whether memory training mirrors images."""
        if self.options.flip or self.options.memory_flip == "flip":
            return self.options.flip
        named, named_mirrored = self.runtime.read(self.buffers[NAMED]).tolist()
        return named >= FEWEST_NAMED and named_mirrored >= AS_GOOD * named

    @property
    def most_at_once(self) -> int:
        return super().replay_size(0)  # so that an image gets as many steps in a batch of any size

    @property
    def steps(self) -> int:
        return self.options.replays

    def _share_of_steps(self, n_stream: int) -> int:
        return min(self.steps, -(-self.steps * n_stream // super().replay_size(n_stream)))

    def replay_size(self, n_stream: int) -> int:
        most = super().replay_size(n_stream)
        return self._share_of_steps(n_stream) * min(most, max(n_stream, most // 2))

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

    def memory_view(self, images: Tensor) -> Tensor:
        return self.memory_augmentations[self.mirrors].strong(images, self.generator)

    def end_consolidation(self, memory: Samples) -> None:
        if self.models[0].decay:
            self._keep_the_better(memory)
        super().end_consolidation(memory)

    def _keep_the_better(self, memory: Samples) -> None:
        """Undo memory training that names less of what it taught than what predicted before it, by McNemar's test.

        If it is worse even there, it is hardly better elsewhere. Samples kept from replay and training would be fairer
        judges, but they see less and cost accuracy (`experiments/light-networks`).
        """
        model, taught = self.models[0], self.memory_targets(memory).argmax(dim=1)
        after = model.outputs(memory.images).logits.argmax(dim=1) == taught
        model.through_average = True  # the average is what predicted before
        before = model.outputs(memory.images).logits.argmax(dim=1) == taught
        lost, won = self.runtime.read(torch.stack([before & ~after, after & ~before]).sum(dim=1)).tolist()
        if lost - won > STANDARD_ERRORS * math.sqrt(lost + won):
            logger.warning("memory training undone: of %d memory samples it lost %d and won %d", len(taught), lost, won)
            model.leave_average()
        model.through_average = False

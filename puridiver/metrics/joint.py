"""Features of a network trained jointly on all clean data: what Eq. 12 measures diversity with. Cached on disk."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver import augment, plugins
from puridiver.data.base import UNKNOWN, DataSource
from puridiver.errors import DataError
from puridiver.files import file_lock
from puridiver.learner import storage
from puridiver.nets import NETWORKS, build_network
from puridiver.options import Options, class_options
from puridiver.runtime.device import Runtime
from puridiver.runtime.model import TrainableModel
from puridiver.runtime.plans import Buffers, PlanRunner
from puridiver.trainers.schedule import cosine

EPOCHS, BATCH, RATE, WEIGHT_DECAY, SEED = 20, 128, 0.1, 5e-4, 0
CHUNK = 500
BLOCK_BYTES = 256 << 20  # of images that are moved to the device and augmented at once
ON_DEVICE_BYTES = 4 << 30


def joint_features(
    source: DataSource, network: str, runtime: Runtime, cache: Path, options: Options,
    tell: Callable[[str], None] = lambda text: None,
) -> Tensor:  # fmt: skip
    """Features (N, d) of the source's train images; trains the network unless the cache has them, or soon will.

    The cache is keyed by the data's fingerprint, the network with its own options and, if it is a plugin, its code,
    its precision, how images are cropped and mirrored, and the settings of this module.
    """
    if (source.train.true_labels == UNKNOWN).any():
        raise ValueError("diversity is measured by true labels (Eq. 12), which these data do not have: leave it out")
    values = {name: options[name] for name in class_options(NETWORKS[network])}
    own = f".{hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]}" if values else ""
    code = "".join(f".{origin.code[:16]}" for origin in plugins.origins(("network", network)).values())
    made = f"{EPOCHS}x{BATCH}-crop{options.crop_padding}-flip{int(options.flip)}"
    folder = cache / f"{source.fingerprint[:16]}-{network}{code}{own}-{runtime.precision}-{made}"
    cache.mkdir(parents=True, exist_ok=True)
    # Runs that start side by side need the same one: it takes a GPU forty seconds, and a CPU far longer.
    with file_lock(cache / f"{folder.name}.lock", wait_seconds=math.inf, what="the joint network"):
        with contextlib.suppress(DataError):  # a cache that cannot be read is made anew
            return storage.load(folder)[1]["features"]
        net_options = Options(**values, crop_padding=options.crop_padding, flip=options.flip)
        training = JointTraining(source, network, runtime, net_options)
        for epoch in range(EPOCHS):
            training.epoch(epoch)
            tell(f"joint network for diversity, epoch {epoch + 1}/{EPOCHS}")
        storage.save(folder, {"network": network}, {"features": (features := training.features())})
        return features


class JointTraining:
    """A network on its way: steps over blocks of images that lie augmented on the device."""

    def __init__(self, source: DataSource, network: str, runtime: Runtime, options: Options) -> None:
        self.runtime, self.options, self.generator = runtime, options, torch.Generator().manual_seed(SEED)
        net = build_network(network, len(source.class_names), source.image_shape, options, self.generator)
        self.model, self.buffers = TrainableModel(net, runtime, _sgd), Buffers()
        self._run = PlanRunner(runtime, self._step, self.model, self.buffers)
        images = source.train.images
        self.images = runtime.move(images) if images.nbytes <= ON_DEVICE_BYTES else images
        self.labels = runtime.move(source.train.true_labels)
        per_block = max(1, BLOCK_BYTES // (BATCH * images[:1].nbytes))
        self.block = BATCH * min(per_block, -(-len(images) // BATCH))

    def epoch(self, epoch: int) -> None:
        self.model.set_rate(cosine(epoch, EPOCHS, RATE))
        for rows in torch.randperm(len(self.images), generator=self.generator).split(self.block):
            images = torch.cat([self._augmented(part) for part in self._moved(rows).split(BATCH)])
            n, key = len(images), f"{len(images)}."  # the last block of an epoch is smaller
            self.buffers.put(key + "images", images)
            self.buffers.put(key + "labels", self.labels[rows.to(self.labels.device)])
            full = n - n % BATCH
            for plan in (torch.arange(full).view(-1, BATCH), torch.arange(full, n).view(1, -1)):
                if plan.numel() > 1:  # BatchNorm needs two
                    self._run(plan, key)

    def features(self) -> Tensor:
        """Of the train images, (N, d)."""
        parts = torch.arange(len(self.images)).split(CHUNK)
        return torch.cat([self.model.outputs(self._moved(rows)).features.cpu() for rows in parts])

    def _step(self, row: Tensor, key: str) -> None:
        logits = self.model.logits(self.buffers[key + "images"][row])
        self.model.step(F.cross_entropy(logits, self.buffers[key + "labels"][row]))

    def _augmented(self, images: Tensor) -> Tensor:
        return augment.crop_flip_view(images, self.options.crop_padding, self.options.flip, self.generator)

    def _moved(self, rows: Tensor) -> Tensor:
        """Images as (N, C, H, W) on the device."""
        return self.runtime.move(self.images[rows.to(self.images.device)].permute(0, 3, 1, 2).contiguous())


def _sgd(parameters: Iterable[Tensor], rate: Tensor) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, rate, 0.9, weight_decay=WEIGHT_DECAY, nesterov=True, fused=rate.is_cuda)

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
from puridiver.data.base import DataSource
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
    source: DataSource, network: str, runtime: Runtime, cache: Path, views: augment.ViewSettings,
    tell: Callable[[str], None] = lambda text: None, options: Options | None = None,
) -> Tensor:  # fmt: skip
    """Features (N, d) of the source's train images; trains the network unless the cache has them, or soon will.

    The cache is keyed by the data's fingerprint, the network with its own `options` and, if it is a plugin, its code,
    its precision and the settings of this module.
    """
    options = options or Options()
    values = {name: options[name] for name in class_options(NETWORKS[network])}
    own = f".{hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]}" if values else ""
    code = "".join(f".{origin.code[:16]}" for origin in plugins.origins(("network", network)).values())
    made = f"{EPOCHS}x{BATCH}-crop{views.crop_padding}-flip{int(views.flip)}"
    folder = cache / f"{source.fingerprint[:16]}-{network}{code}{own}-{runtime.precision}-{made}"
    cache.mkdir(parents=True, exist_ok=True)
    # Runs that start side by side need the same one: it takes a GPU forty seconds, and a CPU far longer.
    with file_lock(cache / f"{folder.name}.lock", wait_seconds=math.inf, what="the joint network"):
        with contextlib.suppress(DataError):  # a cache that cannot be read is made anew
            return storage.load(folder)[1]["features"]
        joint = _Joint(source, network, runtime, views, Options(**values))
        for epoch in range(EPOCHS):
            joint.train(epoch)
            tell(f"joint network for diversity, epoch {epoch + 1}/{EPOCHS}")
        storage.save(folder, {"network": network}, {"features": (features := joint.features())})
        return features


def _sgd(parameters: Iterable[Tensor], rate: Tensor) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, rate, 0.9, weight_decay=WEIGHT_DECAY, nesterov=True, fused=rate.is_cuda)


class _Joint:
    """The network in its training: steps over blocks of images that lie augmented on the device."""

    def __init__(
        self, source: DataSource, network: str, runtime: Runtime, views: augment.ViewSettings, options: Options
    ) -> None:
        self.runtime, self.views, self.generator = runtime, views, torch.Generator().manual_seed(SEED)
        net = build_network(network, len(source.class_names), source.image_shape, options, self.generator)
        self.model, self.buffers = TrainableModel(net, runtime, _sgd), Buffers()
        self._run = PlanRunner(runtime, self._step)
        images = source.train.images
        self.images = runtime.move(images) if images.nbytes <= ON_DEVICE_BYTES else images
        self.labels = runtime.move(source.train.true_labels)
        per_block = max(1, BLOCK_BYTES // (BATCH * images[:1].nbytes))
        self.block = BATCH * min(per_block, -(-len(images) // BATCH))

    def train(self, epoch: int) -> None:
        self.model.set_rate(cosine(epoch, EPOCHS, RATE))
        padding, flip = self.views.crop_padding, self.views.flip
        for rows in torch.randperm(len(self.images), generator=self.generator).split(self.block):
            draws = [augment.draw_crop_flip(len(part), padding, flip, self.generator) for part in rows.split(BATCH)]
            parts = self._moved(self.images[rows.to(self.images.device)]).split(BATCH)
            images = torch.cat([augment.crop_flip(part, draw) for part, draw in zip(parts, draws, strict=True)])
            n, key = len(images), f"{len(images)}."  # the last block of an epoch is smaller
            self.buffers.put(key + "images", images)
            self.buffers.put(key + "labels", self.labels[rows.to(self.labels.device)])
            versions, full = self.buffers.versions(key + "images", key + "labels"), n - n % BATCH
            for plan in (torch.arange(full).view(-1, BATCH), torch.arange(full, n).view(1, -1)):
                if plan.numel() > 1:  # BatchNorm needs two
                    self._run(plan, key, versions)

    def _step(self, row: Tensor, key: str, versions: object) -> None:
        logits = self.model.logits(_scaled(self.buffers[key + "images"][row]))
        self.model.step(F.cross_entropy(logits, self.buffers[key + "labels"][row]))

    def features(self) -> Tensor:
        """Of the train images, (N, d)."""
        parts = (_scaled(self._moved(part)) for part in self.images.split(CHUNK))
        return torch.cat([self.model.outputs(part).features.cpu() for part in parts])

    def _moved(self, images: Tensor) -> Tensor:
        """(N, C, H, W) on the device."""
        return self.runtime.move(images.permute(0, 3, 1, 2).contiguous())


def _scaled(images: Tensor) -> Tensor:
    """Floats of roughly zero mean and unit variance."""
    mean, std = (images.new_full((images.shape[1],), value, dtype=torch.float32) for value in (0.5, 0.25))
    return augment.to_float(images, mean, std).contiguous(memory_format=torch.channels_last)

"""Features of a network trained jointly on all clean data: what Eq. 12 measures diversity with. Cached on disk."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator
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
    source: DataSource,
    network: str,
    runtime: Runtime,
    cache: Path,
    views: augment.ViewSettings,
    on_epoch: Callable[[int, int], None] = lambda epoch, epochs: None,
    options: Options | None = None,
) -> Tensor:
    """Features (N, d) of the source's train images; trains the network unless the cache has them, or soon will.

    `options` holds the values of the network's own options. The cache is keyed by the data's fingerprint, the network
    (and its code, if it is from outside the package, and its own options, if it has any), its precision and the
    settings of this module.
    """
    options = options or Options()
    values = {name: options[name] for name in class_options(NETWORKS[network])}
    own = f".{hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]}" if values else ""
    code = "".join(f".{origin.code[:16]}" for origin in plugins.origins(("network", network)).values())
    made = f"{EPOCHS}x{BATCH}-crop{views.crop_padding}-flip{int(views.flip)}"
    folder = cache / f"{source.fingerprint[:16]}-{network}{code}{own}-{runtime.precision}-{made}"
    with contextlib.suppress(DataError):  # a cache that cannot be read is made anew
        return storage.load(folder)[1]["features"]
    cache.mkdir(parents=True, exist_ok=True)
    # Runs that start side by side need the same one: it takes a GPU forty seconds, and a CPU far longer.
    with file_lock(cache / f"{folder.name}.lock", wait_seconds=math.inf, what="the joint network"):
        with contextlib.suppress(DataError):  # made while we waited
            return storage.load(folder)[1]["features"]
        joint = _Joint(source, network, runtime, views, Options(**values))
        for epoch in range(EPOCHS):
            joint.train(epoch)
            on_epoch(epoch + 1, EPOCHS)
        features = joint.features()
        storage.save(folder, {"test_accuracy": joint.accuracy(), "network": network}, {"features": features})
        return features


def _sgd(parameters: Iterable[Tensor], rate: Tensor) -> torch.optim.Optimizer:
    return torch.optim.SGD(
        parameters, lr=rate, momentum=0.9, weight_decay=WEIGHT_DECAY, nesterov=True, fused=rate.is_cuda
    )


class _Joint:
    """The network in its training: steps over blocks of images that lie augmented on the device."""

    def __init__(
        self, source: DataSource, network: str, runtime: Runtime, views: augment.ViewSettings, options: Options
    ) -> None:
        self.source, self.runtime, self.views = source, runtime, views
        self.generator = torch.Generator().manual_seed(SEED)
        classes = len(source.class_names)
        net = build_network(network, classes, source.image_shape, options, self.generator)
        self.model = TrainableModel(net, runtime, _sgd)
        self.buffers = Buffers()
        self._run = PlanRunner(runtime, self._step)
        # Looked at many times; a larger set comes in parts.
        images = source.train.images
        self.images = runtime.move(images) if images.nbytes <= ON_DEVICE_BYTES else images
        self.labels = runtime.move(source.train.true_labels)
        per_block = max(1, BLOCK_BYTES // (BATCH * images[:1].nbytes))
        self.block = BATCH * min(per_block, -(-len(images) // BATCH))

    def train(self, epoch: int) -> None:
        self.model.set_rate(cosine(epoch, EPOCHS, RATE))
        for rows in torch.randperm(len(self.images), generator=self.generator).split(self.block):
            draws = [
                augment.draw_crop_flip(len(part), self.views.crop_padding, self.views.flip, self.generator)
                for part in rows.split(BATCH)
            ]
            images = _channels_first(self.images[rows.to(self.images.device)], self.runtime)
            parts = [augment.crop_flip(part, draw) for part, draw in zip(images.split(BATCH), draws, strict=True)]
            self._train_block(torch.cat(parts), self.labels[rows.to(self.labels.device)])

    def _train_block(self, images: Tensor, labels: Tensor) -> None:
        n = len(images)
        key = f"{n}."  # the last block of an epoch is smaller
        self.buffers.put(key + "images", images)
        self.buffers.put(key + "labels", labels)
        versions = self.buffers.versions(key + "images", key + "labels")
        full = n - n % BATCH
        for plan in (torch.arange(full).view(-1, BATCH), torch.arange(full, n).view(1, -1)):
            if plan.numel() > 1:  # BatchNorm needs two
                self._run(plan, key, versions)

    def _step(self, row: Tensor, key: str, versions: object) -> None:
        logits = self.model.logits(_scaled(self.buffers[key + "images"][row]))
        self.model.step(F.cross_entropy(logits, self.buffers[key + "labels"][row]))

    def features(self) -> Tensor:
        """Of the train images, (N, d)."""
        return torch.cat([self.model.outputs(part).features.cpu() for part in self._parts(self.images)])

    def accuracy(self) -> float:
        """On the test images."""
        test = self.source.test
        guesses = [self.model.outputs(part).logits.argmax(dim=1).cpu() for part in self._parts(test.images)]
        return float((torch.cat(guesses) == test.labels).double().mean()) if guesses else float("nan")

    def _parts(self, images: Tensor) -> Iterator[Tensor]:
        return (_scaled(_channels_first(part, self.runtime)) for part in images.split(CHUNK) if len(part))


def _channels_first(images: Tensor, runtime: Runtime) -> Tensor:
    """(N, C, H, W) on the device."""
    return runtime.move(images.permute(0, 3, 1, 2).contiguous())


def _scaled(images: Tensor) -> Tensor:
    """Floats of roughly zero mean and unit variance."""
    mean, std = (images.new_full((images.shape[1],), value, dtype=torch.float32) for value in (0.5, 0.25))
    return augment.to_float(images, mean, std).contiguous(memory_format=torch.channels_last)

"""Features of a network trained jointly on all clean data: what Eq. 12 measures diversity with. Cached on disk."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

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
from puridiver.trainers.schedule import cosine

EPOCHS, BATCH, RATE, WEIGHT_DECAY, SEED = 20, 128, 0.1, 5e-4, 0
CHUNK = 500
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
    # Runs that start side by side need the same one, and it takes minutes.
    with file_lock(cache / f"{folder.name}.lock", wait_seconds=math.inf, what="the joint network"):
        with contextlib.suppress(DataError):  # a cache that cannot be read is made anew
            return storage.load(folder)[1]["features"]
        features = _trained_features(source, network, runtime, values, options, tell)
        storage.save(folder, {"network": network}, {"features": features})
        return features


def _trained_features(
    source: DataSource, network: str, runtime: Runtime, own: dict[str, Any], options: Options,
    tell: Callable[[str], None],
) -> Tensor:  # fmt: skip
    generator = torch.Generator().manual_seed(SEED)
    net = build_network(network, len(source.class_names), source.image_shape, Options(**own), generator)
    model, images = TrainableModel(net, runtime, _sgd), source.train.images
    if images.nbytes <= ON_DEVICE_BYTES:
        images = runtime.move(images)
    for epoch in range(EPOCHS):
        model.set_rate(cosine(epoch, EPOCHS, RATE))
        for rows in torch.randperm(len(images), generator=generator).split(BATCH):
            batch = _batch(images, rows, runtime)
            view = augment.crop_flip_view(batch, options.crop_padding, options.flip, generator)
            if len(rows) > 1:  # BatchNorm needs two
                labels = runtime.move(source.train.true_labels[rows])
                model.step(F.cross_entropy(model.logits(view), labels))
        tell(f"joint network for diversity, epoch {epoch + 1}/{EPOCHS}")
    parts = torch.arange(len(images)).split(CHUNK)
    return torch.cat([model.outputs(_batch(images, rows, runtime)).features.cpu() for rows in parts])


def _sgd(parameters: Iterable[Tensor], rate: Tensor) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, rate, 0.9, weight_decay=WEIGHT_DECAY, nesterov=True, fused=rate.is_cuda)


def _batch(images: Tensor, rows: Tensor, runtime: Runtime) -> Tensor:
    """Some images as (N, C, H, W) on the device."""
    return runtime.move(images[rows.to(images.device)].permute(0, 3, 1, 2).contiguous())

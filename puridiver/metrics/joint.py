"""Features of a network trained jointly on all clean data: what Eq. 12 measures diversity with. Cached on disk."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver import augment, storage
from puridiver.data.base import DataSource
from puridiver.errors import DataError
from puridiver.nets import NetworkSettings, build_network
from puridiver.runtime import Runtime
from puridiver.trainers.schedule import cosine

EPOCHS, BATCH, RATE, SEED = 20, 128, 0.1, 0
CHUNK = 500
ON_DEVICE_BYTES = 4 << 30


def joint_features(
    source: DataSource,
    network: str,
    runtime: Runtime,
    cache: Path,
    views: augment.ViewSettings,
    on_epoch: Callable[[int, int], None] = lambda epoch, epochs: None,
) -> Tensor:
    """Features (N, d) of the source's train images; trains the network unless the cache has them.

    The cache is keyed by the data's fingerprint, the network and the settings of this module.
    """
    key = f"{source.fingerprint[:16]}-{network}-{EPOCHS}x{BATCH}-crop{views.crop_padding}-flip{int(views.flip)}"
    folder = cache / key
    # A cache that cannot be read (two runs wrote it at once) is made anew.
    with contextlib.suppress(DataError):
        return storage.load(folder)[1]["features"]
    features, accuracy = _train(source, network, runtime, views, on_epoch)
    storage.save(folder, {"test_accuracy": accuracy, "network": network}, {"features": features})
    return features


def _train(
    source: DataSource,
    network: str,
    runtime: Runtime,
    views: augment.ViewSettings,
    on_epoch: Callable[[int, int], None],
) -> tuple[Tensor, float]:
    generator = torch.Generator().manual_seed(SEED)
    n_classes = len(source.class_names)
    net = runtime.place(build_network(network, n_classes, source.image_shape, NetworkSettings(), generator))
    optimiser = torch.optim.SGD(net.parameters(), lr=RATE, momentum=0.9, weight_decay=5e-4, nesterov=True)
    images = source.train.images
    if images.nbytes <= ON_DEVICE_BYTES:
        images = runtime.move(images)  # looked at many times; a larger set comes in parts
    labels = runtime.move(source.train.labels)
    for epoch in range(EPOCHS):
        optimiser.param_groups[0]["lr"] = cosine(epoch, EPOCHS, RATE)
        for rows in torch.randperm(len(images), generator=generator).to(images.device).split(BATCH):
            if len(rows) < 2:  # BatchNorm needs two
                continue
            draw = augment.draw_crop_flip(len(rows), views.crop_padding, views.flip, generator)
            x = _scaled(augment.crop_flip(_channels_first(images[rows], runtime), draw))
            optimiser.zero_grad(set_to_none=True)
            F.cross_entropy(net.train()(x), labels[rows.to(labels.device)]).backward()
            optimiser.step()
        on_epoch(epoch + 1, EPOCHS)
    return _measure(net.eval(), source, runtime, images)


@torch.no_grad()
def _measure(net: torch.nn.Module, source: DataSource, runtime: Runtime, images: Tensor) -> tuple[Tensor, float]:
    def parts(images: Tensor) -> Iterator[Tensor]:
        return (_scaled(_channels_first(part, runtime)) for part in images.split(CHUNK))

    features = torch.cat([net.features(part).cpu() for part in parts(images)])  # type: ignore[operator]
    guesses = torch.cat([net(part).argmax(dim=1).cpu() for part in parts(source.test.images)])
    return features, float((guesses == source.test.labels).double().mean())


def _channels_first(images: Tensor, runtime: Runtime) -> Tensor:
    """(N, C, H, W) on the device."""
    return runtime.move(images.permute(0, 3, 1, 2).contiguous())


def _scaled(images: Tensor) -> Tensor:
    channels = images.shape[1]
    return augment.to_float(images, [0.5] * channels, [0.25] * channels)

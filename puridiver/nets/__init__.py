"""Networks: ResNets and a small ConvNet, all with features, logits, classifier weights and a head that grows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from puridiver.nets.base import Head, Network, NetworkSettings, Outputs, initialise, initialise_afresh
from puridiver.nets.resnet import ResNet
from puridiver.nets.small import SmallConvNet

__all__ = [
    "NETWORKS",
    "Head",
    "Network",
    "NetworkSettings",
    "Outputs",
    "build_network",
    "initialise_afresh",
    "suggest_network",
]

NETWORKS: dict[str, Callable[[int, tuple[int, int, int], NetworkSettings], Network]] = {
    "resnet18": partial(ResNet, 18),
    "resnet32": partial(ResNet, 32),
    "resnet34": partial(ResNet, 34),
    "small": SmallConvNet,
}


def check_network(name: str) -> None:
    """An error that says what there is, where a name is none of it."""
    if name not in NETWORKS:
        raise ValueError(f"network should be one of {', '.join(sorted(NETWORKS))}, but got {name!r}")


def build_network(
    name: str,
    n_classes: int,
    image_shape: tuple[int, int, int],
    settings: NetworkSettings,
    generator: torch.Generator,
) -> Network:
    """A freshly initialised network; `image_shape` is (height, width, channels)."""
    check_network(name)
    with torch.random.fork_rng(devices=[]):  # torch's layers draw from the global generator when they are made
        network = NETWORKS[name](n_classes, image_shape, settings)
    initialise(network, generator)
    return network


def suggest_network(image_shape: tuple[int, int, int], device: torch.device) -> str:
    """The network for images of this size when the user names none.

    On a CPU it is the small one whatever their size: memory training of a larger one takes hours there.
    """
    size = max(image_shape[:2])
    if size < 24 or device.type == "cpu":
        return "small"
    return "resnet18" if size <= 64 else "resnet34"

"""The base class of networks, and the checks of networks from outside the package."""

from __future__ import annotations

import logging
import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from puridiver.nets.layers import Head
from puridiver.options import Option, Options

logger = logging.getLogger(__name__)
_warned: weakref.WeakSet[type] = weakref.WeakSet()


class Outputs(NamedTuple):
    """Features (N, d) and logits (N, C) of one pass."""

    features: Tensor
    logits: Tensor


class Network(nn.Module, ABC):
    """Base of every network. A subclass sets `self.head` and computes `features`.

    The package calls `Subclass(n_classes, image_shape, settings)` with the shape (height, width, channels) and the
    run's options. A network from outside the package keeps the weights of its constructor (`keeps_weights`), random or
    read from a file; torch's global generator is seeded meanwhile. The package's networks, and classes that derive
    from them, get the weights of convolutions and linear layers from `initialise`.
    """

    name: str
    title: str
    summary: str
    own_options: ClassVar[Mapping[str, Option]] = {}  # the options that only this network has
    keeps_weights = True
    head: Head
    made_as: tuple[int, tuple[int, int, int], Options]  # the constructor's arguments

    @classmethod
    def is_own(cls) -> bool:
        """Whether the package itself defines the network."""
        return cls.__module__.partition(".")[0] == __name__.partition(".")[0]

    @abstractmethod
    def features(self, images: Tensor) -> Tensor:
        """Compute representation vectors f(x), float32 (N, d), of scaled images (N, C, H, W)."""

    def forward(self, images: Tensor) -> Outputs:
        features = self.features(images)
        return Outputs(features, self.head(features))


# Networks from outside the package ---------------------------------------------------------------------------------


@torch.no_grad()
def check_new(network: Network, n_classes: int, image_shape: tuple[int, int, int]) -> None:
    """Raise a ValueError unless a new network has a head that fits, and features of the right shape and type."""
    height, width, channels = image_shape
    head = getattr(network, "head", None)
    told = f"network {network.name!r}:"
    if not isinstance(head, Head):
        raise ValueError(f"{told} set self.head = puridiver.Head(width, n_classes, settings), for features (N, width)")
    if head.linear.out_features != n_classes:
        raise ValueError(f"{told} the head should have {n_classes} classes, but has {head.linear.out_features}")
    network.eval()
    features: object = network.features(torch.zeros(2, channels, height, width))
    network.train()
    expected = 2, head.linear.in_features
    if not isinstance(features, Tensor) or features.dtype != torch.float32 or features.shape != expected:
        found = f"{features.dtype} {tuple(features.shape)}" if isinstance(features, Tensor) else type(features).__name__
        raise ValueError(
            f"{told} features of 2 images should be torch.float32 {expected} for its head, but are {found}"
        )
    dropouts = [name for name, part in network.named_modules() if _drops(part)]
    if dropouts and type(network) not in _warned:
        _warned.add(type(network))
        logger.warning(
            "%s dropout (%s) draws from a global generator: the same seed will give other results",
            told, ", ".join(dropouts),
        )  # fmt: skip


def _drops(part: nn.Module) -> bool:
    share = part.dropout if isinstance(part, nn.MultiheadAttention) else getattr(part, "p", 0)
    return isinstance(part, nn.modules.dropout._DropoutNd | nn.MultiheadAttention) and share > 0

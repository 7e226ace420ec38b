"""What a network from outside the package must be, with errors that say it."""

from __future__ import annotations

import inspect
import logging
import weakref

import torch
from torch import Tensor, nn

from puridiver.nets.base import Head, Network

logger = logging.getLogger(__name__)
_warned: weakref.WeakSet[type] = weakref.WeakSet()


def check_signature(kind: type[Network]) -> None:
    try:
        inspect.signature(kind).bind(None, None, None)
    except TypeError as error:
        raise ValueError(
            f"network {kind.name!r} should be made as {kind.__name__}(n_classes, image_shape, settings), but its "
            f"constructor takes {inspect.signature(kind)}"
        ) from error


@torch.no_grad()
def check_made(network: Network, n_classes: int, image_shape: tuple[int, int, int]) -> None:
    """A network that was just made: its head, and the features of two images."""
    height, width, channels = image_shape
    _check_head(network, n_classes)
    network.eval()
    features = network.features(torch.zeros(2, channels, height, width))
    network.train()
    if not isinstance(features, Tensor) or features.shape[:1] != (2,) or features.ndim != 2:
        raise ValueError(f"network {network.name!r}: features should be of shape (N, d), but are {spelt(features)}")
    if features.dtype != torch.float32:
        raise ValueError(f"network {network.name!r}: features should be float32, but are {spelt(features)}")
    if features.shape[1] != network.head.linear.in_features:
        raise ValueError(
            f"network {network.name!r}: features have {features.shape[1]} numbers a sample, but its head takes "
            f"{network.head.linear.in_features}"
        )
    draws = [name for name, part in network.named_modules() if _drops(part)]
    if draws and type(network) not in _warned:
        _warned.add(type(network))
        logger.warning(
            "network %r has dropout (%s), whose draws are not the seed's: the same seed will give other figures",
            network.name, ", ".join(draws),
        )  # fmt: skip


def _check_head(network: Network, n_classes: int) -> None:
    head = getattr(network, "head", None)
    if not isinstance(head, Head):
        raise ValueError(
            f"network {network.name!r} should set self.head = puridiver.Head(width, n_classes, settings), with the "
            "width of its features"
        )
    if head.linear.out_features != n_classes:
        raise ValueError(
            f"network {network.name!r}: its head is for {head.linear.out_features} classes instead of the {n_classes} "
            "that it was asked for: puridiver.Head(width, n_classes, settings)"
        )


def _drops(part: nn.Module) -> bool:
    share = part.dropout if isinstance(part, nn.MultiheadAttention) else getattr(part, "p", 0)
    return isinstance(part, nn.modules.dropout._DropoutNd | nn.MultiheadAttention) and share > 0


def spelt(features: object) -> str:
    if not isinstance(features, Tensor):
        return f"a {type(features).__name__}"
    return f"{str(features.dtype).removeprefix('torch.')} of shape {tuple(features.shape)}"

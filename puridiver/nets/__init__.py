"""Networks, found by listing this folder. All have features, logits, classifier weights and a head that can grow."""

from __future__ import annotations

import torch
from torch import nn

from puridiver.discovery import members
from puridiver.nets.base import Network, Outputs, check_new, check_signature
from puridiver.nets.layers import Head, global_draws, initialise, initialise_afresh
from puridiver.options import Options, declare_family

__all__ = [
    "NETWORKS",
    "Head",
    "Network",
    "Outputs",
    "build_network",
    "choose_network",
    "global_draws",
    "initialise_afresh",
    "make_new",
    "suggest_network",
]

NETWORKS: dict[str, type[Network]] = members(__name__, Network)
declare_family("network", NETWORKS)


def build_network(
    name: str,
    n_classes: int,
    image_shape: tuple[int, int, int],
    settings: Options,
    generator: torch.Generator,
) -> Network:
    """Build a network with new weights; `image_shape` is (height, width, channels)."""
    _check_name(name)
    return _build(NETWORKS[name], n_classes, image_shape, settings, generator)


def _check_name(name: str) -> None:
    if name not in NETWORKS:
        raise ValueError(
            f"network should be one of {', '.join(sorted(NETWORKS))}, but got {name!r} "
            "(one of your own needs its plugin: --plugin FILE)"
        )


def _build(
    kind: type[Network], n_classes: int, image_shape: tuple[int, int, int], settings: Options,
    generator: torch.Generator,
) -> Network:  # fmt: skip
    if kind.is_own():
        with global_draws():
            network = kind(n_classes, image_shape, settings)
    else:
        check_signature(kind)
        with global_draws(_seed(kind, generator)):
            network = kind(n_classes, image_shape, settings)
            check_new(network, n_classes, image_shape)
    if not kind.keeps_weights:
        initialise(network, generator)
    network.made_as = n_classes, image_shape, settings
    return network


def _seed(kind: type[Network], generator: torch.Generator) -> int:
    """Draw the seed of a constructor.

    Two networks in a row must differ. But a class that derives from the package's networks must get the same weights
    as they do, so its seed leaves the generator unchanged.
    """
    if not kind.keeps_weights:
        generator = torch.Generator().set_state(generator.get_state())
    return int(torch.randint(1 << 62, (), generator=generator))


def make_new(network: Network, generator: torch.Generator) -> None:
    """Reset weights and statistics in place to those of a new network, even if its head was replaced."""
    if network.is_own():
        initialise_afresh(network, generator)
        return
    # A network from outside may have parameters that `initialise_afresh` does not know.
    weights = _build(type(network), *network.made_as, generator).state_dict()
    network.load_state_dict({k: v for k, v in weights.items() if not k.startswith("head.")}, strict=False)
    head: nn.Module = network.head
    initialise_afresh(head, generator)


def choose_network(name: str, image_shape: tuple[int, int, int], device: torch.device) -> str:
    """The named network, or for "auto" the one that suits the images."""
    chosen = suggest_network(image_shape, device) if name == "auto" else name
    _check_name(chosen)
    return chosen


def suggest_network(image_shape: tuple[int, int, int], device: torch.device) -> str:
    """The network for images of this size. On a CPU it is always the small one: a larger one trains for hours."""
    size = max(image_shape[:2])
    if size < 24 or device.type == "cpu":
        return "small"
    return "resnet18" if size <= 64 else "resnet34"

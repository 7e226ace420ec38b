"""Networks: ResNets and a small ConvNet, all with features, logits, classifier weights and a head that grows."""

from __future__ import annotations

import torch
from torch import nn

from puridiver.discovery import members
from puridiver.nets.base import Head, Network, Outputs, global_draws, initialise, initialise_afresh
from puridiver.nets.foreign import check_made, check_signature
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


def check_network(name: str) -> None:
    """An error that says what there is, where a name is none of it."""
    if name not in NETWORKS:
        raise ValueError(
            f"network should be one of {', '.join(sorted(NETWORKS))}, but got {name!r} "
            "(one of your own needs its plugin: docs/METHODS.md)"
        )


def build_network(
    name: str,
    n_classes: int,
    image_shape: tuple[int, int, int],
    settings: Options,
    generator: torch.Generator,
) -> Network:
    """A freshly initialised network; `image_shape` is (height, width, channels)."""
    check_network(name)
    return _build(NETWORKS[name], n_classes, image_shape, settings, generator)


def _build(
    kind: type[Network], n_classes: int, image_shape: tuple[int, int, int], settings: Options,
    generator: torch.Generator,
) -> Network:  # fmt: skip
    if not kind.is_own():
        check_signature(kind)
    with global_draws(None if kind.is_own() else _seed(kind, generator)):
        network = kind(n_classes, image_shape, settings)
        if not kind.is_own():
            check_made(network, n_classes, image_shape)
    if not kind.keeps_weights:
        initialise(network, generator)
    network.made_as = n_classes, image_shape, settings
    return network


def _seed(kind: type[Network], generator: torch.Generator) -> int:
    """Two networks in a row must differ; but what is derived from the package's draws the same weights as those."""
    if not kind.keeps_weights:
        generator = torch.Generator().set_state(generator.get_state())
    return int(torch.randint(1 << 62, (), generator=generator))


def make_new(network: Network, generator: torch.Generator) -> None:
    """Weights and statistics as of a new network, in place; also where another module has taken its head's place."""
    if network.is_own():
        initialise_afresh(network, generator)
        return
    # One from outside may have more than `initialise_afresh` knows of, also where it is derived from the package's.
    weights = _build(type(network), *network.made_as, generator).state_dict()
    network.load_state_dict({k: v for k, v in weights.items() if not k.startswith("head.")}, strict=False)
    head: nn.Module = network.head
    initialise_afresh(head, generator)


def choose_network(name: str, image_shape: tuple[int, int, int], device: torch.device) -> str:
    """The network that the user names, or the one for such images for "auto"."""
    chosen = suggest_network(image_shape, device) if name == "auto" else name
    check_network(chosen)
    return chosen


def suggest_network(image_shape: tuple[int, int, int], device: torch.device) -> str:
    """The network for images of this size when the user names none.

    On a CPU it is the small one whatever their size: memory training of a larger one takes hours there.
    """
    size = max(image_shape[:2])
    if size < 24 or device.type == "cpu":
        return "small"
    return "resnet18" if size <= 64 else "resnet34"

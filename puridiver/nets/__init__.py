"""Networks, found by listing this folder. All have features, logits, classifier weights and a head that can grow."""

import torch
from torch import nn

from puridiver.discovery import find, members
from puridiver.nets.base import Head, Network, Outputs, check_new, global_draws, initialise, initialise_afresh
from puridiver.options import TINY_IMAGE, Options, declare_family

__all__ = [
    "NETWORKS", "Head", "Network", "Outputs", "build_network", "choose_network", "global_draws", "initialise_afresh",
    "make_new",
]  # fmt: skip

NETWORKS: dict[str, type[Network]] = members(__name__, Network)  # type: ignore[type-abstract]
declare_family("network", NETWORKS)


def build_network(
    of: str | type[Network],
    n_classes: int,
    image_shape: tuple[int, int, int],
    settings: Options,
    generator: torch.Generator,
) -> Network:
    """Build a network with new weights; `image_shape` is (height, width, channels)."""
    kind = find("network", NETWORKS, of) if isinstance(of, str) else of
    # Two networks in a row must differ. But a class that derives from the package's networks gets the same weights as
    # they do: its seed leaves the generator unchanged.
    seed = int(torch.randint(1 << 62, (), generator=generator)) if kind.keeps_weights else generator.initial_seed()
    with global_draws(seed):
        try:
            network = kind(n_classes, image_shape, settings)
        except TypeError as error:
            raise ValueError(
                f"network {kind.name!r}: the constructor should be {kind.__name__}(n_classes, image_shape, settings), "
                f"but raised: {error}"
            ) from error
        if not kind.is_own():
            check_new(network, n_classes, image_shape)
    if not kind.keeps_weights:
        initialise(network, generator)
    network.made_as = n_classes, image_shape, settings
    return network


def make_new(network: Network, generator: torch.Generator) -> None:
    """Reset weights and statistics in place to those of a new network, even if its head was replaced."""
    if network.is_own():
        initialise_afresh(network, generator)
        return
    # A network from outside may have parameters that `initialise_afresh` does not know.
    weights = build_network(type(network), *network.made_as, generator).state_dict()
    network.load_state_dict({k: v for k, v in weights.items() if not k.startswith("head.")}, strict=False)
    head: nn.Module = network.head
    initialise_afresh(head, generator)


def choose_network(name: str, image_shape: tuple[int, int, int], device: torch.device) -> str:
    """The named network, or for "auto" the one for images of this size.

    On a CPU that is always a small one: a ResNet trains for hours.
    """
    if name != "auto":
        return find("network", NETWORKS, name).name
    size = max(image_shape[:2])
    if size < TINY_IMAGE:
        return "small"
    if device.type == "cpu":
        return "convnet"
    return "resnet18" if size <= 64 else "resnet34"

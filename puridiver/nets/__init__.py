"""Networks, found by listing this folder. All have features, logits, classifier weights and a head that can grow."""

import torch
from torch import nn

from puridiver.discovery import find, members
from puridiver.nets.backbone import Backbone, as_backbone, fine_tuned, is_backbone
from puridiver.nets.base import (
    Head,
    Network,
    Outputs,
    check_new,
    global_draws,
    initialise,
    initialise_afresh,
    without_row,
)
from puridiver.options import Options, declare_family
from puridiver.recipes import TINY_IMAGE

__all__ = [
    "NETWORKS", "Backbone", "Head", "Network", "Outputs", "as_backbone", "build_network", "choose_network",
    "fine_tuned", "global_draws", "initialise_afresh", "is_backbone", "is_light", "make_new", "without_row",
]  # fmt: skip

NETWORKS: dict[str, type[Network]] = members(__name__, Network)  # type: ignore[type-abstract]
declare_family("network", NETWORKS)


def build_network(
    of: str | type[Network], n_classes: int, input_shape: tuple[int, ...], settings: Options, generator: torch.Generator
) -> Network:
    """Build a network with new weights; `input_shape` is (height, width, channels), or (d,) of vectors."""
    kind = find("network", NETWORKS, of) if isinstance(of, str) else of
    # Two networks in a row must differ. But a class that derives from the package's networks gets the same weights as
    # they do: its seed leaves the generator unchanged.
    seed = int(torch.randint(1 << 62, (), generator=generator)) if kind.keeps_weights else generator.initial_seed()
    with global_draws(seed):
        try:
            network = kind(n_classes, input_shape, settings)
        except TypeError as error:
            raise ValueError(
                f"network {kind.name!r}: the constructor should be {kind.__name__}(n_classes, input_shape, settings), "
                f"but raised: {error}"
            ) from error
        if not kind.is_own():
            check_new(network, n_classes, input_shape)
    if not kind.keeps_weights:
        initialise(network, generator)
    network.made_as = n_classes, input_shape, settings
    return network


def make_new(network: Network, generator: torch.Generator) -> None:
    """Reset weights and statistics in place to those of a new network, even if its head was replaced."""
    if network.is_own() and not network.keeps_weights:
        initialise_afresh(network, generator)
        return
    # A network that keeps the weights of its constructor may have parameters that `initialise_afresh` does not know.
    weights = build_network(type(network), *network.made_as, generator).state_dict()
    network.load_state_dict({k: v for k, v in weights.items() if not k.startswith("head.")}, strict=False)
    head: nn.Module = network.head
    initialise_afresh(head, generator)


def is_light(name: str) -> bool:
    """Whether a network of this name is small enough to learn from a stream on a CPU, step by step."""
    return name in NETWORKS and NETWORKS[name].light


def choose_network(name: str, input_shape: tuple[int, ...], device: torch.device) -> str:
    """The named network or backbone, or for "auto" the one for vectors or for images of this size.

    On a CPU that is always a light one: a ResNet trains for hours.
    """
    of_vectors = len(input_shape) == 1
    if is_backbone(name):
        return name
    if name != "auto":
        kind = find("network", NETWORKS, name)
        if kind.takes_vectors != of_vectors:
            takes = "vectors (d,)" if kind.takes_vectors else "images (height, width, channels)"
            raise ValueError(f"network {name!r} takes {takes}, but the input has the shape {input_shape}")
        return kind.name
    if of_vectors:
        return "mlp"
    size = max(input_shape[:2])
    if device.type == "cpu" or size < TINY_IMAGE:
        return "convnet"
    return "resnet18" if size <= 64 else "resnet34"

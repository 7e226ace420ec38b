"""Networks from outside the package, for tests; and plugins with faulty ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import puridiver
from puridiver.nets import Head, Network, NetworkSettings, build_network
from tests.learner_samples import SHAPE, TINY, patterns


class Tokens(Network):
    """With all that the package's networks do not have: LayerNorm, attention, parameters of no layer, biases."""

    name = "tokens"

    def __init__(self, n_classes: int, image_shape: tuple[int, int, int], settings: NetworkSettings) -> None:
        super().__init__()
        self.cut = nn.Conv2d(image_shape[2], 16, 4, stride=4)
        self.places = nn.Parameter(torch.randn(4, 16))
        self.norm = nn.LayerNorm(16)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.head = Head(16, n_classes, settings)

    def features(self, images: Tensor) -> Tensor:
        tokens = self.norm(self.cut(images).flatten(2).transpose(1, 2) + self.places)
        return (tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0]).mean(dim=1) * self.scale


class Read(Tokens):
    """Starts from weights that it had before."""

    name = "read"

    def __init__(self, *words: Any) -> None:
        super().__init__(*words)
        with torch.no_grad():
            self.cut.weight.fill_(0.25)
        self.places.requires_grad = False


class Volume(Network):
    """Takes the channels of an image for a third dimension, so that weights are 5-D; some are 4-D beside."""

    name = "volume"

    def __init__(self, n_classes: int, image_shape: tuple[int, int, int], settings: NetworkSettings) -> None:
        super().__init__()
        self.deep, self.flat = nn.Conv3d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3)
        self.head = Head(8, n_classes, settings)

    def features(self, images: Tensor) -> Tensor:
        return self.flat(self.deep(images[:, None]).relu().mean(dim=2)).mean(dim=(2, 3))


def built(name: str, seed: int = 0, settings: NetworkSettings = NetworkSettings()) -> Network:  # noqa: B008 - frozen
    return build_network(name, 3, SHAPE, settings, torch.Generator().manual_seed(seed))


def weights(network: nn.Module) -> Tensor:
    return torch.cat([value.detach().flatten() for value in network.state_dict().values()])


def learned(**settings: Any) -> puridiver.Learner:
    learner = puridiver.Learner(3, SHAPE, 12, **{"network": Tokens, "device": "cpu", "seed": 1, **TINY, **settings})
    images, labels = patterns(48)
    for part in range(0, 48, 8):
        learner.observe(images[part : part + 8], labels[part : part + 8])
    learner.consolidate(2)
    return learner


FAULTY = """
import puridiver, torch
from torch import nn

@puridiver.register
class Mine(puridiver.Network):
    name = "mine"
    def __init__(self, n_classes, image_shape, settings):
        super().__init__()
        self.body = nn.Conv2d(image_shape[2], WIDTH, 3)
        self.drop = nn.Dropout(0.5)
        self.n = 0
        self.head = puridiver.Head(WIDTH, n_classes, settings)
    def features(self, images):
        return FEATURES
"""


def mine(folder: Path, features: str = "self.body(images).mean(dim=(2, 3))", **changes: str) -> Path:
    """A plugin with the network `mine`, words of its file changed."""
    path = folder / "mine.py"
    text = FAULTY.replace("FEATURES", features)
    for old, new in {"WIDTH": "8", **changes}.items():
        text = text.replace(old, new)
    path.write_text(text)
    return path

"""A ConvNet for images on a CPU: two convolutions and a hidden layer that sees where things are."""

import torch.nn.functional as F
from torch import Tensor, nn

from puridiver.nets.base import ConvNorm, Head, Network
from puridiver.options import Options


class ConvNet(Network):
    """Two 3x3 convolutions with pooling and BatchNorm, then a hidden layer over at most 8 x 8 places.

    It pools before BatchNorm, which takes a quarter of the time there, and begins with torch's own weights: with larger
    ones it learns more slowly.
    """

    name = title = "convnet"
    light = True
    summary = "two convolutions and a hidden layer, for images on a CPU"
    WIDTHS, HIDDEN, PLACES = (32, 64), 128, 8

    def __init__(self, n_classes: int, input_shape: tuple[int, int, int], settings: Options) -> None:
        super().__init__()
        height, width, previous = input_shape
        layers: list[nn.Module] = []
        for width_out, then in zip(self.WIDTHS, ("relu", "none"), strict=True):
            layers.append(ConvNorm(previous, width_out, 3, 1, settings, then, pool=True))
            height, width, previous = -(-height // 2), -(-width // 2), width_out
        size = min(height, self.PLACES), min(width, self.PLACES)
        shrinks = size != (height, width)  # pooling is slow even where it does nothing
        shrink = nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool2d(size)) if shrinks else nn.Identity()
        self.body = nn.Sequential(*layers, shrink, nn.Flatten())
        self.hidden = nn.Linear(previous * size[0] * size[1], self.HIDDEN)
        self.norm = nn.BatchNorm1d(self.HIDDEN, eps=settings.batchnorm_epsilon)
        self.head = Head(self.HIDDEN, n_classes, settings)

    def features(self, images: Tensor) -> Tensor:
        flat = F.relu(self.body(images).float())  # before the flattening its gradient would mix two memory layouts
        return F.relu(self.norm(self.hidden(flat)))

"""A small ConvNet (under 100,000 parameters) for images of 8 to 32 px, fast on a CPU."""

import torch
from torch import Tensor, nn

from puridiver.nets.base import ConvNorm, Head, Network
from puridiver.options import Options


class SmallConvNet(Network):
    """Three 3x3 convolutions with BatchNorm; each halves the resolution while at least 8 px are left."""

    name = title = "small"
    keeps_weights = False
    light = True
    summary = "three convolutions, under 100,000 parameters"
    WIDTHS = (32, 64, 96)

    def __init__(self, n_classes: int, input_shape: tuple[int, int, int], settings: Options) -> None:
        super().__init__()
        height, width, previous = input_shape
        size = min(height, width)
        layers: list[nn.Module] = []
        for width_out in self.WIDTHS:
            layers.append(ConvNorm(previous, width_out, 3, 1, settings, "relu"))
            if size >= 8:
                layers.append(nn.MaxPool2d(2))
                size //= 2
            previous = width_out
        self.body = nn.Sequential(*layers)
        self.head = Head(previous, n_classes, settings)

    def features(self, images: Tensor) -> Tensor:
        return self.body(images).mean(dim=(2, 3), dtype=torch.float32)

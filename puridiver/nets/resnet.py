"""ResNet-18, -32 and -34 (He et al., 2016), for small images (3x3 stem) and for 224-px ones (7x7 stem, pooling)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from puridiver.nets.base import ConvNorm, Head, Network, NetworkSettings

SMALL_IMAGE = 64  # up to this size the stem keeps the resolution

# depth -> (blocks of each stage, width of each stage)
STAGES = {
    18: ((2, 2, 2, 2), (64, 128, 256, 512)),
    32: ((5, 5, 5), (16, 32, 64)),
    34: ((3, 4, 6, 3), (64, 128, 256, 512)),
}


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut; where the last ReLU stands is a setting."""

    def __init__(self, width_in: int, width: int, stride: int, settings: NetworkSettings) -> None:
        super().__init__()
        adds = {"after_add": self._add_then_relu, "before_add": self._relu_then_add}
        if settings.block_relu not in adds:
            raise ValueError(f"block_relu should be one of {sorted(adds)}, but got {settings.block_relu!r}")
        self.add = adds[settings.block_relu]
        self.first = ConvNorm(width_in, width, 3, stride, settings)
        self.second = ConvNorm(width, width, 3, 1, settings)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or width_in != width:
            self.shortcut = ConvNorm(width_in, width, 1, stride, settings)

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(F.relu(self.first(x)))
        return self.add(y, self.shortcut(x))

    @staticmethod
    def _add_then_relu(y: Tensor, x: Tensor) -> Tensor:
        return F.relu(y + x)

    @staticmethod
    def _relu_then_add(y: Tensor, x: Tensor) -> Tensor:
        return F.relu(y) + x


class ResNet(Network):
    """A ResNet of basic blocks with global average pooling."""

    def __init__(
        self, depth: int, n_classes: int, image_shape: tuple[int, int, int], settings: NetworkSettings
    ) -> None:
        super().__init__()
        blocks, widths = STAGES[depth]
        height, width, channels = image_shape
        self.stem = self._stem(channels, widths[0], max(height, width) <= SMALL_IMAGE, settings)
        stages: list[nn.Module] = []
        previous = widths[0]
        for stage, (n_blocks, stage_width) in enumerate(zip(blocks, widths, strict=True)):
            for block in range(n_blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                stages.append(BasicBlock(previous, stage_width, stride, settings))
                previous = stage_width
        self.blocks = nn.Sequential(*stages)
        self.head = Head(previous, n_classes, settings)

    @staticmethod
    def _stem(channels: int, width: int, small: bool, settings: NetworkSettings) -> nn.Sequential:
        if small:
            return nn.Sequential(ConvNorm(channels, width, 3, 1, settings), nn.ReLU())
        return nn.Sequential(ConvNorm(channels, width, 7, 2, settings), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1))

    def features(self, images: Tensor) -> Tensor:
        return self.blocks(self.stem(images)).mean(dim=(2, 3), dtype=torch.float32)

"""ResNet-18, -32 and -34 (He et al., 2016), for small images (3x3 stem) and for 224-px ones (7x7 stem, pooling)."""

import torch
from torch import Tensor, nn

from puridiver.nets.base import ConvNorm, Head, Network
from puridiver.options import Options

SMALL_IMAGE = 64  # up to this size in pixels the stem keeps the resolution

# depth -> (blocks of each stage, width of each stage)
STAGES = {
    18: ((2, 2, 2, 2), (64, 128, 256, 512)),
    32: ((5, 5, 5), (16, 32, 64)),
    34: ((3, 4, 6, 3), (64, 128, 256, 512)),
}

BLOCK_ENDS = {"after_add": "add_relu", "before_add": "relu_add"}  # option block_relu -> what follows the last norm


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut; the option `block_relu` places the last ReLU."""

    def __init__(self, width_in: int, width: int, stride: int, settings: Options) -> None:
        super().__init__()
        self.first = ConvNorm(width_in, width, 3, stride, settings, "relu")
        self.second = ConvNorm(width, width, 3, 1, settings, BLOCK_ENDS[settings.block_relu])
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or width_in != width:
            self.shortcut = ConvNorm(width_in, width, 1, stride, settings, "relu" if settings.shortcut_relu else "none")

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x), self.shortcut(x))


class ResNet(Network):
    """A ResNet of basic blocks with global average pooling."""

    depth: int
    keeps_weights = False

    def __init__(self, n_classes: int, input_shape: tuple[int, int, int], settings: Options) -> None:
        super().__init__()
        blocks, widths = STAGES[self.depth]
        height, width, channels = input_shape
        if max(height, width) <= SMALL_IMAGE:
            self.stem = nn.Sequential(ConvNorm(channels, widths[0], 3, 1, settings, "relu"))
        else:
            stem = ConvNorm(channels, widths[0], 7, 2, settings, "relu")
            self.stem = nn.Sequential(stem, nn.MaxPool2d(3, 2, padding=1))
        self.blocks = nn.Sequential()
        previous = widths[0]
        for n_blocks, stage_width in zip(blocks, widths, strict=True):
            for block in range(n_blocks):
                stride = 2 if block == 0 and self.blocks else 1
                self.blocks.append(BasicBlock(previous, stage_width, stride, settings))
                previous = stage_width
        self.head = Head(previous, n_classes, settings)

    def features(self, images: Tensor) -> Tensor:
        return self.blocks(self.stem(images)).mean(dim=(2, 3), dtype=torch.float32)


class ResNet18(ResNet):
    name, title, depth = "resnet18", "ResNet-18", 18
    summary = "the paper's network for CIFAR-10; default for images up to 64 px"


class ResNet32(ResNet):
    name, title, depth = "resnet32", "ResNet-32", 32
    summary = "the paper's network for CIFAR-100: narrow and deep, for small images"


class ResNet34(ResNet):
    name, title, depth = "resnet34", "ResNet-34", 34
    summary = "the paper's network for WebVision and Food-101N; default for larger images"

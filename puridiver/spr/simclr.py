"""SimCLR's views (Chen et al., 2020) for self-supervised learning: resized crop, flip, colour jitter, greyscale."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver.augment.ops import enhance

JITTERED = 0.8  # share of views with colour jitter
STRENGTH = 0.4  # largest change of brightness, contrast and saturation
HUE = 0.1  # largest change of hue, in whole turns
GREY = 0.2  # share of views without colour
RATIOS = (3 / 4, 4 / 3)  # smallest and largest width / height of a crop
# RGB to luma and two chroma axes; hue is an angle in the plane of the chroma axes
YIQ = ((0.299, 0.587, 0.114), (0.596, -0.274, -0.322), (0.211, -0.523, 0.312))


class SimCLRDraw(NamedTuple):
    """A crop (`width`, `height` as shares of the image, centre `x`, `y` in [-1, 1]) and colour changes, (n,) each."""

    width: Tensor
    height: Tensor
    x: Tensor
    y: Tensor
    flip: Tensor
    brightness: Tensor
    contrast: Tensor
    saturation: Tensor
    hue: Tensor  # in whole turns
    grey: Tensor


def draw_simclr(n: int, smallest_crop: float, flip: bool, generator: torch.Generator) -> SimCLRDraw:
    """Draw a view for each sample; a crop covers a share of the image from `smallest_crop` to 1."""
    u = torch.rand(11, n, generator=generator)
    area = smallest_crop + (1 - smallest_crop) * u[0]
    low, high = (math.log(ratio) for ratio in RATIOS)
    side = (low + (high - low) * u[1]).mul(0.5).exp()
    width, height = (area.sqrt() * side).clamp(max=1), (area.sqrt() / side).clamp(max=1)
    jitter = (u[2] < JITTERED).float()
    factors = 1 + jitter * STRENGTH * (2 * u[3:6] - 1)  # (3, n)
    x, y = (1 - width) * (2 * u[6] - 1), (1 - height) * (2 * u[7] - 1)
    colours = (factors[0], factors[1], factors[2], jitter * HUE * (2 * u[9] - 1), u[10] < GREY)
    return SimCLRDraw(width, height, x, y, (u[8] < 0.5) & flip, *colours)


def simclr_view(images: Tensor, draw: SimCLRDraw) -> Tensor:
    """Crop, mirror and recolour each image; hue and saturation apply to RGB images only."""
    view = resized_crop(images, draw)
    view = enhance(enhance(view, draw.brightness, "brightness"), draw.contrast, "contrast")
    if images.shape[1] == 1:
        return view
    view = turn_hue(enhance(view, draw.saturation, "colour"), draw.hue)
    return torch.where(
        draw.grey.to(images.device, non_blocking=True).view(-1, 1, 1, 1), enhance(view, 0.0, "colour"), view
    )


def resized_crop(images: Tensor, draw: SimCLRDraw) -> Tensor:
    """Cut out each crop, mirror it if drawn, and stretch it to the whole image bilinearly."""
    zero = torch.zeros_like(draw.width)
    across = torch.where(draw.flip, -draw.width, draw.width)
    rows = [torch.stack([across, zero, draw.x], 1), torch.stack([zero, draw.height, draw.y], 1)]
    matrices = torch.stack(rows, 1).to(images.device, non_blocking=True)  # (N, 2, 3)
    grid = F.affine_grid(matrices, list(images.shape), align_corners=False)
    cropped = F.grid_sample(images.float(), grid, padding_mode="border", align_corners=False)
    return cropped.round_().to(torch.uint8)


def turn_hue(images: Tensor, turns: Tensor) -> Tensor:
    """Rotate each image's hue by a share of the colour circle; luma stays."""
    to_yiq = torch.tensor(YIQ)
    angle = turns * 2 * math.pi
    turn = torch.eye(3).repeat(len(turns), 1, 1)
    turn[:, 1, 1] = turn[:, 2, 2] = angle.cos()
    turn[:, 2, 1], turn[:, 1, 2] = angle.sin(), -angle.sin()
    matrices = (to_yiq.inverse() @ turn @ to_yiq).to(images.device, non_blocking=True)  # (N, 3, 3)
    turned = torch.einsum("nij,njhw->nihw", matrices, images.float())
    return turned.round_().clamp_(0, 255).to(torch.uint8)

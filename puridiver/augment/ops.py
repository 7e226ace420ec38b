"""Colour and geometry operations on uint8 batches (N, C, H, W), equal to Pillow's grey level for grey level.

A magnitude is one number for the whole batch, or a tensor (N,) on the host. An affine matrix maps a place in the output
to a place in the input, in 16.16 fixed point as Pillow computes it, on the host: so CPU and GPU use the same integers.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

LEVELS = 256
FRACTION_BITS = 16

# Colour ------------------------------------------------------------------------------------------------------------


def posterise(images: Tensor, bits: float | Tensor) -> Tensor:
    """Keep the highest `bits` (0 to 8) of each grey level, as ImageOps.posterize."""
    kept = _per_sample(bits, images).to(torch.int32)
    return images & (LEVELS - (1 << (8 - kept))).to(torch.uint8)


def solarise(images: Tensor, threshold: float | Tensor) -> Tensor:
    """Invert the grey levels from `threshold` upwards, as ImageOps.solarize."""
    inverted = images >= _per_sample(threshold, images)
    # flipping all bits gives 255 - level; unlike torch.where, xor costs the same on noise as on plain areas
    return images ^ (inverted.to(torch.uint8) * 255)


def autocontrast(images: Tensor) -> Tensor:
    """Stretch each channel to the whole range of grey levels, as ImageOps.autocontrast."""
    # Pillow truncates, so the last bit of a float64 decides a grey level: keep this order of operations
    low = images.amin((2, 3), keepdim=True).double()
    high = images.amax((2, 3), keepdim=True).double()
    # divide tensors: torch computes `number / tensor` as a product with the reciprocal, which rounds twice
    scale = torch.full_like(low, 255.0) / (high - low).clamp_min(1.0)
    stretched = (images * scale + -low * scale).clamp_(0, 255).to(torch.uint8)
    return torch.where(high > low, stretched, images)


def equalise(images: Tensor) -> Tensor:
    """Flatten the histogram of each channel, as ImageOps.equalize."""
    levels = images.flatten(2).long()
    counts = torch.zeros(*images.shape[:2], LEVELS, dtype=torch.int64, device=images.device)
    histogram = counts.scatter_add_(2, levels, torch.ones_like(levels))  # (N, C, 256)
    brightest = torch.where(histogram > 0, torch.arange(LEVELS, device=images.device), 0).amax(2, keepdim=True)
    # pixels per output level without the brightest level, (N, C, 1); 0: leave the channel unchanged
    step = (histogram.sum(2, keepdim=True) - histogram.gather(2, brightest)) // (LEVELS - 1)
    before = histogram.cumsum(2) - histogram
    table = ((before + step // 2) // step.clamp_min(1)).clamp_(max=255).to(torch.uint8)
    mapped = table.gather(2, levels).view_as(images)
    return torch.where(step.unsqueeze(3) > 0, mapped, images)


def enhance(images: Tensor, factor: float | Tensor, kind: str) -> Tensor:
    """Blend a degenerate image (factor 0) with the image (1), or go beyond, as ImageEnhance and Image.blend.

    The degenerate image of "brightness" is black, of "colour" grey, of "contrast" the mean grey, of "sharpness" smooth.
    """
    start = torch.zeros_like(images, dtype=torch.float32)
    if kind == "colour":
        start = luma(images).float()
    elif kind == "contrast":
        pixels = images.shape[2] * images.shape[3]
        total = luma(images).sum((2, 3), keepdim=True, dtype=torch.int64)
        start = ((2 * total + pixels) // (2 * pixels)).float()  # the mean, rounded
    elif kind == "sharpness":
        start = images.float()
        rows = start[..., :-2] + start[..., 1:-1] + start[..., 2:]
        weighted = rows[..., :-2, :] + rows[..., 1:-1, :] + rows[..., 2:, :] + 4 * start[..., 1:-1, 1:-1]
        # Pillow's SMOOTH filter; a 13th never lies half-way between grey levels, so float32 rounds like exact numbers
        start[..., 1:-1, 1:-1] = (weighted / 13 + 0.5).floor_()
    return (start + _per_sample(factor, images).float() * (images - start)).clamp_(0, 255).to(torch.uint8)


def _per_sample(value: float | Tensor, images: Tensor) -> Tensor:
    """Move magnitudes to the images' device, (N or 1, 1, 1, 1)."""
    return torch.as_tensor(value).to(images.device, non_blocking=True).view(-1, 1, 1, 1)


def luma(images: Tensor) -> Tensor:
    """Convert RGB to grey with Pillow's fixed-point weights, (N, 1, H, W)."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.int().split(1, dim=1)
    return (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16


# Geometry, nearest pixel --------------------------------------------------------------------------------------------


def shift(images: Tensor, value: float | Tensor, fill: int = 0, *, entry: int) -> Tensor:
    """Replace one entry of the identity matrix: 3 shears columns, 2 and 5 move left and up by a share of the side."""
    matrix: list[float | Tensor] = [1, 0, 0, 0, 1, 0]
    matrix[entry] = value * {2: images.shape[3], 5: images.shape[2]}.get(entry, 1)
    return affine(images, matrix, fill)


def rotate(images: Tensor, degrees: float | Tensor, fill: int = 0) -> Tensor:
    """Rotate counter-clockwise about the centre, as Image.rotate without expansion."""
    angle = torch.as_tensor(degrees, dtype=torch.float64).deg2rad()
    # Pillow rounds too; otherwise the last bit of cos(90 degrees) could miss a pixel
    cos, sin = angle.cos().round(decimals=15), angle.sin().round(decimals=15)
    x, y = images.shape[3] / 2, images.shape[2] / 2
    return affine(images, (cos, -sin, x - x * cos + y * sin, sin, cos, y - x * sin - y * cos), fill)


def affine(images: Tensor, matrix: Sequence[float | Tensor], fill: int = 0) -> Tensor:
    """Move pixels as Image.transform with AFFINE, NEAREST and a fill colour.

    The matrix has two rows of three entries, each a number or a tensor (N,).
    """
    height, width = images.shape[2:]
    entries = torch.broadcast_tensors(*map(partial(torch.as_tensor, dtype=torch.float64), matrix))
    centred = torch.stack(entries, -1).view(-1, 2, 3)  # (N or 1, 2, 3)
    # offsets at pixel centres instead of corners, added up in Pillow's order
    centred[..., 2] = centred[..., 2] + 0.5 * centred[..., 0] + 0.5 * centred[..., 1]
    fixed = (centred * 2**FRACTION_BITS + 0.5).floor_().long().to(images.device, non_blocking=True)
    a, b, c, d, e, f = fixed.view(-1, 6, 1, 1).unbind(1)
    x = torch.arange(width, device=images.device)
    y = torch.arange(height, device=images.device).unsqueeze(1)
    column = (a * x + b * y + c) >> FRACTION_BITS  # (N or 1, H, W)
    row = (d * x + e * y + f) >> FRACTION_BITS
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    source = torch.where(inside, row * width + column, 0).flatten(1).unsqueeze(1)
    moved = images.flatten(2).gather(2, source.expand(*images.shape[:2], -1)).view_as(images)
    return moved.masked_fill_(~inside.unsqueeze(1), fill)

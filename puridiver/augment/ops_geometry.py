"""Shear, translation and rotation of uint8 batches (N, C, H, W), nearest pixel, as Pillow's affine transform.

A matrix maps a place in the output to a place in the input, in pixels from the upper left corner. Pillow computes
it in 16.16 fixed point, and so does this module. A magnitude is one number for the whole batch or a tensor (N,).
The matrix is computed on the magnitude's device, the host for a draw, so CPU and GPU use the same integers.
"""

from __future__ import annotations

import torch
from torch import Tensor

FRACTION_BITS = 16


def shear_x(images: Tensor, factor: float | Tensor, fill: int = 0) -> Tensor:
    """Shift each row left by `factor` times its distance from the top."""
    return affine(images, _matrix(1, factor, 0, 0, 1, 0), fill)


def shear_y(images: Tensor, factor: float | Tensor, fill: int = 0) -> Tensor:
    """Shift each column up by `factor` times its distance from the left."""
    return affine(images, _matrix(1, 0, 0, factor, 1, 0), fill)


def translate_x(images: Tensor, fraction: float | Tensor, fill: int = 0) -> Tensor:
    """Shift the image left by a fraction of its width."""
    return affine(images, _matrix(1, 0, fraction * images.shape[3], 0, 1, 0), fill)


def translate_y(images: Tensor, fraction: float | Tensor, fill: int = 0) -> Tensor:
    """Shift the image up by a fraction of its height."""
    return affine(images, _matrix(1, 0, 0, 0, 1, fraction * images.shape[2]), fill)


def rotate(images: Tensor, degrees: float | Tensor, fill: int = 0) -> Tensor:
    """Rotate counter-clockwise about the centre, as Image.rotate without expansion."""
    angle = torch.as_tensor(degrees, dtype=torch.float64).deg2rad()
    # Pillow rounds too; otherwise the last bit of cos(90 degrees) could miss a pixel
    cos, sin = angle.cos().round(decimals=15), angle.sin().round(decimals=15)
    x, y = images.shape[3] / 2, images.shape[2] / 2
    return affine(images, _matrix(cos, -sin, x - x * cos + y * sin, sin, cos, y - x * sin - y * cos), fill)


def affine(images: Tensor, matrix: Tensor, fill: int = 0) -> Tensor:
    """Move pixels by matrices (N or 1, 2, 3), as Image.transform with AFFINE, NEAREST and a fill colour."""
    height, width = images.shape[2:]
    a, b, c, d, e, f = _fixed_point(matrix).to(images.device, non_blocking=True).view(-1, 6, 1, 1).unbind(1)
    x = torch.arange(width, device=images.device)
    y = torch.arange(height, device=images.device).unsqueeze(1)
    column = (a * x + b * y + c) >> FRACTION_BITS  # (N or 1, H, W)
    row = (d * x + e * y + f) >> FRACTION_BITS
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    source = torch.where(inside, row * width + column, 0).flatten(1).unsqueeze(1)
    moved = images.flatten(2).gather(2, source.expand(*images.shape[:2], -1)).view_as(images)
    return moved.masked_fill_(~inside.unsqueeze(1), fill)


def _matrix(*entries: float | Tensor) -> Tensor:
    """Build float64 matrices (N or 1, 2, 3) from six entries, each a number or a tensor (N,)."""
    columns = [torch.as_tensor(entry, dtype=torch.float64).reshape(-1) for entry in entries]
    device = next((entry.device for entry in entries if isinstance(entry, Tensor)), torch.device("cpu"))
    columns = torch.broadcast_tensors(*(column.to(device) for column in columns))
    return torch.stack(columns, 1).view(-1, 2, 3)


def _fixed_point(matrix: Tensor) -> Tensor:
    """Convert matrices to int64 fixed point, with offsets at pixel centres instead of corners."""
    centred = matrix.clone()
    centred[..., 2] = matrix[..., 2] + 0.5 * matrix[..., 0] + 0.5 * matrix[..., 1]
    return (centred * 2**FRACTION_BITS + 0.5).floor_().long()

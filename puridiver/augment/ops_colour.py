"""Colour operations on uint8 batches (N, C, H, W), equal to Pillow's grey level for grey level.

A magnitude is one number for the whole batch, or a tensor (N,) on any device. Images with one channel are grey:
`colour` leaves them unchanged.
"""

from __future__ import annotations

import torch
from torch import Tensor

LEVELS = 256


def invert(images: Tensor) -> Tensor:
    """Invert the grey levels, as ImageOps.invert."""
    return 255 - images


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
    histogram = _histogram(images)  # (N, C, 256)
    step = _equalise_step(histogram)  # (N, C, 1)
    before = histogram.cumsum(2) - histogram
    table = ((before + step // 2) // step.clamp_min(1)).clamp_(max=255).to(torch.uint8)
    mapped = table.gather(2, images.flatten(2).long()).view_as(images)
    return torch.where(step.unsqueeze(3) > 0, mapped, images)


def brightness(images: Tensor, factor: float | Tensor) -> Tensor:
    """Blend black (factor 0) with the image (1), or go beyond, as ImageEnhance.Brightness."""
    return _blend(torch.zeros_like(images), images, factor)


def colour(images: Tensor, factor: float | Tensor) -> Tensor:
    """Blend the grey image (factor 0) with the image (1), or go beyond, as ImageEnhance.Color."""
    return _blend(_luma(images), images, factor)


def contrast(images: Tensor, factor: float | Tensor) -> Tensor:
    """Blend the mean grey (factor 0) with the image (1), or go beyond, as ImageEnhance.Contrast."""
    pixels = images.shape[2] * images.shape[3]
    total = _luma(images).sum((2, 3), keepdim=True, dtype=torch.int64)
    rounded_mean = (2 * total + pixels) // (2 * pixels)
    return _blend(rounded_mean, images, factor)


def sharpness(images: Tensor, factor: float | Tensor) -> Tensor:
    """Blend a smoothed image (factor 0) with the image (1), or go beyond, as ImageEnhance.Sharpness."""
    return _blend(_smooth(images), images, factor)


def _per_sample(value: float | Tensor, images: Tensor) -> Tensor:
    """Move magnitudes to the images' device, (N or 1, 1, 1, 1)."""
    return torch.as_tensor(value).to(images.device, non_blocking=True).view(-1, 1, 1, 1)


def _blend(degenerate: Tensor, images: Tensor, factor: float | Tensor) -> Tensor:
    """Compute `degenerate + factor * (images - degenerate)` in float32, clip and truncate, as Image.blend."""
    start = degenerate.float()
    return (start + _per_sample(factor, images).float() * (images - start)).clamp_(0, 255).to(torch.uint8)


def _luma(images: Tensor) -> Tensor:
    """Convert RGB to grey with Pillow's fixed-point weights, (N, 1, H, W)."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.int().split(1, dim=1)
    return (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16


def _smooth(images: Tensor) -> Tensor:
    """Apply Pillow's SMOOTH filter: a 3 x 3 mean with weight 5 at the centre; border pixels stay."""
    levels = images.float()
    rows = levels[..., :-2] + levels[..., 1:-1] + levels[..., 2:]
    weighted = rows[..., :-2, :] + rows[..., 1:-1, :] + rows[..., 2:, :] + 4 * levels[..., 1:-1, 1:-1]
    # a 13th never lies half-way between grey levels, so float32 rounds like exact arithmetic
    levels[..., 1:-1, 1:-1] = (weighted / 13 + 0.5).floor_()
    return levels


def _histogram(images: Tensor) -> Tensor:
    """Count the grey levels of each channel of each sample, int64 (N, C, 256)."""
    n, channels = images.shape[:2]
    counts = torch.zeros(n, channels, LEVELS, dtype=torch.int64, device=images.device)
    levels = images.flatten(2).long()
    return counts.scatter_add_(2, levels, torch.ones_like(levels))


def _equalise_step(histogram: Tensor) -> Tensor:
    """Pixels per output level without the brightest level, (N, C, 1); 0: leave the channel unchanged."""
    levels = torch.arange(LEVELS, device=histogram.device)
    brightest = torch.where(histogram > 0, levels, 0).amax(2, keepdim=True)
    return (histogram.sum(2, keepdim=True) - histogram.gather(2, brightest)) // (LEVELS - 1)

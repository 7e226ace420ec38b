"""Crop and flip, and the scaling to network input."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def draw_crop_flip(n: int, padding: int, flip: bool, generator: torch.Generator) -> Tensor:
    """Draw the top and the left (0 to 2 * padding) of each crop and, if `flip`, whether to mirror it: int64 (3, n)."""
    places = torch.randint(2 * padding + 1, (2, n), generator=generator)
    coin = torch.rand(1, n, generator=generator) < 0.5
    return torch.cat([places, coin.long() * flip])


def crop_flip(images: Tensor, draw: Tensor, padding: int) -> Tensor:
    """Crop each zero-padded image at its own place, then mirror those that the draw says."""
    top, left, flip = draw.to(images.device, non_blocking=True)
    cropped = images
    if padding:
        n, _, height, width = images.shape
        # a view of all possible crops: (N, C, 2 * padding + 1, 2 * padding + 1, H, W)
        crops = F.pad(images, [padding] * 4).unfold(2, height, 1).unfold(3, width, 1)
        cropped = crops[torch.arange(n, device=images.device), :, top, left]
    return torch.where(flip.bool().view(-1, 1, 1, 1), cropped.flip(3), cropped)


def crop_flip_view(images: Tensor, padding: int, flip: bool, generator: torch.Generator) -> Tensor:
    """Crop and flip at random."""
    return crop_flip(images, draw_crop_flip(len(images), padding, flip, generator), padding)


def views_at_once(images: Tensor) -> int:
    """How many images of this size to augment in one pass.

    A pass took an H200 7.8 ms for 500 small images and 11.3 ms for 5,000; at 224 px so many would take gigabytes.
    """
    return min(5_000, (64 << 20) // images[0].nbytes)


def to_float(images: Tensor) -> Tensor:
    """Scale grey levels to network input, float32 in [-2, 2] and channels-last.

    One scaling for every source: a stream's own statistics are not known before it has passed.
    """
    return ((images / 255 - 0.5) / 0.25).contiguous(memory_format=torch.channels_last)

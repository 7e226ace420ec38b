"""CutMix (Yun et al., ICCV 2019): a box of each image shows another image of the batch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from puridiver.augment.base import check_count
from puridiver.augment.mixup import beta_sample, beta_samples


@dataclass(frozen=True)
class CutMixDraw:
    """Sample i shows sample `permutation[i]` in rows y0 to y1 and columns x0 to x1 (ends excluded).

    `lam` is the share of pixels that sample i keeps, after the box was clipped at the image's border.
    """

    permutation: Tensor
    y0: int
    y1: int
    x0: int
    x1: int
    lam: float


def draw_cutmix(n: int, height: int, width: int, alpha: float, generator: torch.Generator) -> CutMixDraw:
    """Draws the partners and one box for the batch, its area 1 - Beta(alpha, alpha) before clipping."""
    check_count(n)
    if min(height, width) < 1:
        raise ValueError(f"height and width should be 1 or more pixels, but got {height} and {width}")
    side = math.sqrt(1 - beta_sample(alpha, generator))
    permutation = torch.randperm(n, generator=generator)
    y0, y1 = _draw_interval(height, side, generator)
    x0, x1 = _draw_interval(width, side, generator)
    lam = 1 - (y1 - y0) * (x1 - x0) / (height * width)
    return CutMixDraw(permutation, y0, y1, x0, x1, lam)


def cutmix(images: Tensor, draw: CutMixDraw) -> Tensor:
    """Puts into each image (N, C, H, W), of any dtype, the box of its partner."""
    if images.ndim != 4 or len(images) != len(draw.permutation):
        raise ValueError(
            f"images should have the shape ({len(draw.permutation)}, C, H, W), but got {tuple(images.shape)}"
        )
    rows, columns = slice(draw.y0, draw.y1), slice(draw.x0, draw.x1)
    mixed = images.clone()
    partner = draw.permutation.to(images.device, non_blocking=True)
    mixed[:, :, rows, columns] = images[:, :, rows, columns][partner]
    return mixed


def _draw_interval(length: int, share: float, generator: torch.Generator) -> tuple[int, int]:
    """An interval of about `share` of the length around a uniform centre, clipped to the length."""
    half = int(length * share) // 2
    centre = int(torch.randint(length, (), generator=generator))
    return max(centre - half, 0), min(centre + half, length)


def draw_cutmix_plan(
    steps: int, n: int, height: int, width: int, probability: float, alpha: float, generator: torch.Generator
) -> Tensor:
    """Draws for many batches of n at once: int64 (steps, n + 4), each row the partners and the box y0, y1, x0, x1.

    With probability 1 - `probability` a batch stays as it is: its box is empty.
    """
    partners = torch.rand(steps, n, generator=generator).argsort(dim=1)
    sides = torch.tensor([math.sqrt(1 - beta) for beta in beta_samples(steps, alpha, generator)])
    wanted = (torch.rand(steps, generator=generator) < probability) & (n > 1)
    box = [_draw_intervals(length, sides * wanted, generator) for length in (height, width)]
    return torch.cat([partners, *box], dim=1)


def _draw_intervals(length: int, shares: Tensor, generator: torch.Generator) -> Tensor:
    """Intervals of about `shares` of the length around uniform centres, clipped to the length, (steps, 2)."""
    half = (length * shares).long() // 2
    centre = torch.randint(length, (len(shares),), generator=generator)
    return torch.stack([(centre - half).clamp(min=0), (centre + half).clamp(max=length)], dim=1)


def planned_cutmix(images: Tensor, targets: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
    """CutMix of images (n, C, H, W) and soft targets (n, K) by a row of a plan, with no value read on the host."""
    return planned_cut(images, row), planned_shares(targets, row, images.shape[2] * images.shape[3])


def planned_cut(images: Tensor, row: Tensor) -> Tensor:
    """The images of `planned_cutmix`."""
    n, _, height, width = images.shape
    partner, (y0, y1, x0, x1) = row[:n], row[n : n + 4]
    y = torch.arange(height, device=images.device)
    x = torch.arange(width, device=images.device)
    inside = ((y >= y0) & (y < y1))[:, None] & ((x >= x0) & (x < x1))[None, :]
    return torch.where(inside, images[partner], images)


def planned_shares(targets: Tensor, row: Tensor, pixels: int) -> Tensor:
    """The targets of `planned_cutmix`, by the pixels of an image."""
    n = len(targets)
    partner, (y0, y1, x0, x1) = row[:n], row[n : n + 4]
    lam = 1 - ((y1 - y0) * (x1 - x0)).to(targets.dtype) / pixels
    return lam * targets + (1 - lam) * targets[partner]

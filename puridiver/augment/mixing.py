"""CutMix (Yun et al., ICCV 2019) and Mixup (Zhang et al., ICLR 2018): a batch mixed with a permutation of itself.

A plan holds the draws of many batches as int64 rows on the device. Applying a row reads no value on the host.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def draw_cutmix_plan(
    steps: int, n: int, height: int, width: int, probability: float, generator: torch.Generator
) -> Tensor:
    """Draw for many batches of n: int64 (steps, n + 4), each row the partners and one box y0, y1, x0, x1.

    The box covers 1 - Beta(1, 1) of the image before it is clipped at the border. With probability 1 - `probability`
    the box is empty and the batch stays unchanged.
    """
    partners = torch.rand(steps, n, generator=generator).argsort(dim=1)
    sides = (1 - beta_samples(steps, 1.0, generator)).sqrt().float()
    wanted = (torch.rand(steps, generator=generator) < probability) & (n > 1)
    rows = _draw_intervals(height, sides * wanted, generator)
    columns = _draw_intervals(width, sides * wanted, generator)
    return torch.cat([partners, rows, columns], dim=1)


def _draw_intervals(length: int, shares: Tensor, generator: torch.Generator) -> Tensor:
    """Intervals of about `shares` of the length around uniform centres, clipped to the length, (steps, 2)."""
    half = (length * shares).long() // 2
    centre = torch.randint(length, (len(shares),), generator=generator)
    return torch.stack([(centre - half).clamp(min=0), (centre + half).clamp(max=length)], dim=1)


def planned_cutmix(images: Tensor, targets: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
    """CutMix of images (n, C, H, W) and soft targets (n, K) by one row of a plan."""
    return planned_cut(images, row), planned_shares(targets, row, images.shape[2] * images.shape[3])


def planned_cut(images: Tensor, row: Tensor) -> Tensor:
    """Show in the box of each image the same box of its partner."""
    n, _, height, width = images.shape
    partner, (y0, y1, x0, x1) = row[:n], row[n : n + 4]
    y = torch.arange(height, device=images.device)
    x = torch.arange(width, device=images.device)
    inside = ((y >= y0) & (y < y1))[:, None] & ((x >= x0) & (x < x1))[None, :]
    return torch.where(inside, images[partner], images)


def planned_shares(targets: Tensor, row: Tensor, pixels: int) -> Tensor:
    """Mix the targets as `planned_cut` mixes the pixels; `pixels` is how many an image has."""
    n = len(targets)
    partner, (y0, y1, x0, x1) = row[:n], row[n : n + 4]
    lam = 1 - ((y1 - y0) * (x1 - x0)).to(targets.dtype) / pixels
    return lam * targets + (1 - lam) * targets[partner]


def draw_mixup_plan(steps: int, n: int, alpha: float, generator: torch.Generator) -> Tensor:
    """Draw for many batches of n: int64 (steps, n + 1), the partners, then the bits of lam as float64.

    As in MixMatch, lam is the larger of the two shares.
    """
    partners = torch.rand(steps, n, generator=generator).argsort(dim=1)
    beta = beta_samples(steps, alpha, generator)
    lam = torch.maximum(beta, 1 - beta)
    return torch.cat([partners, lam.view(torch.int64)[:, None]], dim=1)


def planned_mix(tensor: Tensor, row: Tensor) -> Tensor:
    """Mixup of images or targets by one row of a plan: `lam * tensor + (1 - lam) * tensor[partner]`."""
    lam = row[-1:].view(torch.float64).to(tensor.dtype)
    return lam * tensor + (1 - lam) * tensor[row[:-1]]


def beta_samples(n: int, alpha: float, generator: torch.Generator) -> Tensor:
    """Draw from the symmetric Beta(alpha, alpha) distribution, float64 (n,)."""
    # torch has no public Beta that takes a generator, so the generator seeds NumPy's
    seed = int(torch.randint(2**63 - 1, (), generator=generator))
    return torch.from_numpy(np.random.default_rng(seed).beta(alpha, alpha, size=n))

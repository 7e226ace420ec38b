"""Mixup (Zhang et al., ICLR 2018): a batch blended with a permutation of itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from puridiver.augment.base import check_count


@dataclass(frozen=True)
class MixupDraw:
    """Sample i is blended with sample `permutation[i]`; `lam` is the share that sample i keeps."""

    permutation: Tensor
    lam: float


def beta_samples(n: int, alpha: float, generator: torch.Generator) -> list[float]:
    """Exact draws from the symmetric Beta(alpha, alpha) distribution."""
    if not (alpha > 0 and np.isfinite(alpha)):
        raise ValueError(f"alpha should be a finite number above 0, but got {alpha}")
    # torch has no public Beta that takes a generator, so NumPy's is seeded from it
    seed = int(torch.randint(2**63 - 1, (), generator=generator))
    return np.random.default_rng(seed).beta(alpha, alpha, size=n).tolist()


def beta_sample(alpha: float, generator: torch.Generator) -> float:
    """One exact draw from the symmetric Beta(alpha, alpha) distribution."""
    return beta_samples(1, alpha, generator)[0]


def draw_mixup(n: int, alpha: float, generator: torch.Generator, *, keep_majority: bool = False) -> MixupDraw:
    """Draws the partners and the common share; `keep_majority` takes max(lam, 1 - lam), as MixMatch does."""
    check_count(n)
    lam = beta_sample(alpha, generator)
    permutation = torch.randperm(n, generator=generator)
    return MixupDraw(permutation, max(lam, 1 - lam) if keep_majority else lam)


def mix(tensor: Tensor, draw: MixupDraw) -> Tensor:
    """`lam * tensor + (1 - lam) * tensor[permutation]`, for images and for targets alike."""
    if not tensor.is_floating_point():
        raise ValueError(
            f"mix needs a floating-point tensor (scaled images, class probabilities), but got {tensor.dtype}"
        )
    if len(tensor) != len(draw.permutation):
        raise ValueError(f"the draw is for {len(draw.permutation)} samples, but the tensor has {len(tensor)}")
    partner = tensor[draw.permutation.to(tensor.device, non_blocking=True)]
    return draw.lam * tensor + (1 - draw.lam) * partner


def draw_mixup_plan(steps: int, n: int, alpha: float, generator: torch.Generator) -> Tensor:
    """Draws for many batches of n at once: int64 (steps, n + 1), the partners, then the bits of lam as float64.

    lam is the larger of the two shares, as MixMatch takes it.
    """
    partners = torch.rand(steps, n, generator=generator).argsort(dim=1)
    lam = torch.tensor([max(beta, 1 - beta) for beta in beta_samples(steps, alpha, generator)], dtype=torch.float64)
    return torch.cat([partners, lam.view(torch.int64)[:, None]], dim=1)


def planned_mix(tensor: Tensor, row: Tensor) -> Tensor:
    """`mix` by a row of a plan, with no value read on the host."""
    lam = row[-1:].view(torch.float64).to(tensor.dtype)
    return lam * tensor + (1 - lam) * tensor[row[:-1]]

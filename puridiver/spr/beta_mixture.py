"""A two-component Beta mixture of values in [0, 1], fitted by EM on the tensor's own device, many rows at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

EDGE = 1e-4  # a Beta density has no value, or no finite one, at 0 and 1
START = ((1.0, 2.0), (2.0, 1.0))  # alpha, beta of the low and of the high component before the first step
CONCENTRATION = (1e-2, 1e7)  # bounds of alpha + beta: a component of one value has no variance


@dataclass(frozen=True)
class BetaMixture:
    """A fitted mixture; component 1 always has the greater mean. `alphas`, `betas` and `weights` are (..., 2).

    `high_posterior` (..., N) is p(component 1 | value), and 0 where the mask was False or the value not finite. Where
    there is nothing to tell apart (fewer than two different values) every value belongs to component 1.
    """

    high_posterior: Tensor
    alphas: Tensor
    betas: Tensor
    weights: Tensor

    @property
    def means(self) -> Tensor:
        return self.alphas / (self.alphas + self.betas)


def fit_beta_mixture(
    values: Tensor, mask: Tensor | None = None, iterations: int = 10, judged: Tensor | None = None
) -> BetaMixture:
    """Fit two Beta distributions to each row of values (..., N) where `mask` is True.

    The M-step is by the method of moments, as SPR's is. `judged` widens the posterior to values outside the mask.
    Beyond the value at which the posterior is highest it stays so high: a wide low component would otherwise claim
    the highest values of all.
    """
    x = values.detach().double()
    finite = torch.isfinite(x)
    used = finite if mask is None else mask & finite
    judged = used if judged is None else judged & finite
    x = torch.where(finite, x, 0.5).clamp(EDGE, 1 - EDGE)
    weight = used.double()
    start = torch.tensor(START, dtype=x.dtype, device=x.device).expand(*x.shape[:-1], 2, 2)
    alphas, betas, weights = start[..., 0], start[..., 1], start.new_full(start.shape[:-1], 0.5)
    for _ in range(iterations):
        joint = _log_joint(x, alphas, betas, weights)
        alphas, betas, weights = _maximise(x, weight, (joint - joint.logsumexp(-2, keepdim=True)).exp())
    order = (alphas / (alphas + betas)).argsort(-1)
    alphas, betas, weights = (parameter.gather(-1, order) for parameter in (alphas, betas, weights))
    joint = _log_joint(x, alphas, betas, weights)
    posterior = _never_falling(x, (joint[..., 1, :] - joint.logsumexp(-2)).exp(), judged)
    low, high = torch.where(used, x, math.inf).amin(-1), torch.where(used, x, -math.inf).amax(-1)
    degenerate = ~(high > low)[..., None]  # also True where nothing is used: -inf > inf fails
    posterior = torch.where(degenerate, 1.0, posterior) * judged
    return BetaMixture(posterior, alphas, betas, weights)


def _log_joint(x: Tensor, alphas: Tensor, betas: Tensor, weights: Tensor) -> Tensor:
    """log p(x, component), (..., 2, N)."""
    a, b = alphas[..., None], betas[..., None]
    log_beta = torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
    x = x[..., None, :]
    return weights.clamp(min=1e-12).log()[..., None] + (a - 1) * x.log() + (b - 1) * (-x).log1p() - log_beta


def _maximise(x: Tensor, weight: Tensor, responsibility: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """alpha, beta and weight of each component, (..., 2) each, from responsibilities (..., 2, N)."""
    r = responsibility * weight[..., None, :]
    tiny = torch.finfo(x.dtype).eps
    total = r.sum(-1)
    mean = ((r * x[..., None, :]).sum(-1) / (total + tiny)).clamp(EDGE, 1 - EDGE)
    variance = (r * (x[..., None, :] - mean[..., None]).square()).sum(-1) / (total + tiny)
    concentration = (mean * (1 - mean) / (variance + tiny) - 1).clamp(*CONCENTRATION)
    return mean * concentration, (1 - mean) * concentration, total / (total.sum(-1, keepdim=True) + tiny)


def _never_falling(x: Tensor, posterior: Tensor, judged: Tensor) -> Tensor:
    """The posterior with its highest value for every x from there on."""
    peak = torch.where(judged, posterior, -math.inf).argmax(-1, keepdim=True)
    return torch.where(x >= x.gather(-1, peak), posterior.gather(-1, peak), posterior)

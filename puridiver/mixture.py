"""Equation 4: a one-dimensional two-component Gaussian mixture, fitted by EM on the tensor's own device.

Written by hand instead of calling scikit-learn's GaussianMixture because it runs once or twice in every memory
epoch: there it would copy the losses to the host and back. The steps are scikit-learn's (hard assignment by
2-means, then EM with the same covariance floor and stopping rule), and the tests hold the two together. One
difference: in one dimension the best 2-means split can be found exactly by sorting, so no random start is needed.
On a GPU the iterations are one kernel (`puridiver.runtime.fused_mixture`) where Triton works.
"""

import functools
import math
from typing import NamedTuple

import torch
from torch import Tensor

from puridiver.errors import worked

LEAST_FLOOR = 1e-12  # a component of equal values would have no variance, and its posterior be nan
MOST_FUSED = 4096  # values that one program of the kernel can hold in its registers


class MixtureSettings(NamedTuple):
    """How the mixture is fitted. The defaults are scikit-learn's."""

    scale: bool = False  # min-max scale the values to [0, 1] first
    max_iterations: int = 100
    tolerance: float = 1e-3
    covariance_floor: float = 1e-6


class Mixture(NamedTuple):
    """A fitted mixture; component 0 always has the smaller mean.

    `low_posterior` is p_G(component 0 | value) for every value, in the order given, and 0 where the mask was
    False or the value not finite. `means`, `variances` and `weights` are on the scale of the fit; `offset` and
    `span` map a value to that scale: (value - offset) / span.
    """

    low_posterior: Tensor
    means: Tensor
    variances: Tensor
    weights: Tensor
    offset: Tensor
    span: Tensor


def fit_mixture(values: Tensor, mask: Tensor | None = None, settings: MixtureSettings | None = None) -> Mixture:
    """Fit two Gaussians to the values where `mask` is True.

    With nothing to split (fewer than two different finite values) every value belongs to component 0.
    """
    settings = settings or MixtureSettings()
    if not len(values):
        nothing = values.new_zeros(2, dtype=torch.float64)
        return Mixture(values.double(), nothing, nothing, nothing, nothing[0], nothing[1])
    x = values.detach().double()
    used = torch.isfinite(x) if mask is None else mask & torch.isfinite(x)
    x = torch.where(used, x, 0)
    weight = used.double()
    low = torch.where(used, x, math.inf).amin()
    high = torch.where(used, x, -math.inf).amax()
    degenerate = ~(high > low)  # also True where nothing is used: inf > inf fails
    as_they_are = degenerate if settings.scale else torch.ones_like(degenerate)
    offset, span = torch.where(as_they_are, 0, low), torch.where(as_they_are, 1, high - low)
    x = (x - offset) / span
    means, variances, weights = _expectation_maximisation(x, weight, settings)
    order = means.argsort()
    means, variances, weights = means[order], variances[order], weights[order]
    joint = _log_joint(x, means, variances, weights)
    low_posterior = torch.where(degenerate, 1.0, (joint[0] - joint.logsumexp(dim=0)).exp()) * weight
    return Mixture(low_posterior, means, variances, weights, offset, span)


def _two_means(x: Tensor, weight: Tensor) -> Tensor:
    """The best split into two groups by squared distance: responsibility of the lower group, 0 or 1."""
    order = torch.where(weight > 0, x, math.inf).argsort()
    v, w = x[order], weight[order]
    n_low, sum_low = w.cumsum(0), (v * w).cumsum(0)
    n_high, sum_high = w.sum() - n_low, (v * w).sum() - sum_low
    # Least within-group variance = greatest between-group variance; the last cut leaves one group empty.
    between = sum_low.square() / n_low.clamp(min=1) + sum_high.square() / n_high.clamp(min=1)
    cut = torch.where(n_high > 0, between, -math.inf).argmax()
    return (x <= v.index_select(0, cut[None])).to(x.dtype)  # (indexing by a 0-dim tensor would read it on the host)


def _maximise(x: Tensor, weight: Tensor, responsibility: Tensor, floor: float) -> tuple[Tensor, Tensor, Tensor]:
    r = torch.stack([responsibility, 1 - responsibility]) * weight  # (2, N)
    tiny = 10 * torch.finfo(x.dtype).eps
    total = r.sum(dim=1) + tiny
    means = (r * x).sum(dim=1) / total
    variances = (r * (x - means[:, None]).square()).sum(dim=1) / total + floor
    return means, variances, total / total.sum()


def _log_joint(x: Tensor, means: Tensor, variances: Tensor, weights: Tensor) -> Tensor:
    """log p(x, component), (2, N)."""
    gap = (x - means[:, None]).square() / variances[:, None]
    return weights.log()[:, None] - 0.5 * (gap + variances.log()[:, None] + math.log(2 * math.pi))


def _expectation_maximisation(x: Tensor, weight: Tensor, settings: MixtureSettings) -> tuple[Tensor, Tensor, Tensor]:
    floor = max(settings.covariance_floor, LEAST_FLOOR)
    parameters = _maximise(x, weight, _two_means(x, weight), floor)
    if x.is_cuda and len(x) <= MOST_FUSED and fused_mixture_works(x.device):
        return _fused(x, weight, parameters, settings, floor)
    bound = x.new_full((), -math.inf)
    done = torch.zeros((), dtype=torch.bool, device=x.device)
    for _ in range(settings.max_iterations):
        joint = _log_joint(x, *parameters)
        evidence = joint.logsumexp(dim=0)
        new_bound = (evidence * weight).sum() / weight.sum().clamp(min=1)
        new = _maximise(x, weight, (joint[0] - evidence).exp(), floor)
        # A finished fit is frozen by `where`, not by leaving the loop: reading `done` would stall a GPU.
        means, variances, weights = (torch.where(done, old, fresh) for old, fresh in zip(parameters, new, strict=True))
        parameters = means, variances, weights
        done = done | ((new_bound - bound).abs() < settings.tolerance)
        bound = new_bound
        if x.device.type == "cpu" and bool(done):
            break
    return parameters


def _fused(
    x: Tensor, weight: Tensor, start: tuple[Tensor, Tensor, Tensor], settings: MixtureSettings, floor: float
) -> tuple[Tensor, Tensor, Tensor]:
    from puridiver.runtime.fused_mixture import fit

    with torch.cuda.device(x.device):  # Triton launches on the current one
        found: tuple[Tensor, Tensor, Tensor] = fit(x, weight, start, settings.max_iterations, settings.tolerance, floor)
        return found


@functools.cache
def fused_mixture_works(device: torch.device) -> bool:
    """Whether the kernel compiles and runs here: it needs Triton and a C compiler. Tried once."""

    def attempt() -> None:
        x = torch.linspace(0, 1, 16, dtype=torch.float64, device=device)
        half = torch.full((2,), 0.5, dtype=torch.float64, device=device)
        _fused(x, torch.ones_like(x), (half, half, half), MixtureSettings(max_iterations=1), 1e-6)

    return worked(attempt, "the mixtures are fitted in many small kernels, slower")

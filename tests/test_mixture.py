"""Equation 4's mixture against scikit-learn's GaussianMixture, and what it does with odd input."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from puridiver.mixture import Mixture, MixtureSettings, fit_mixture
from tests import reference

DEFAULTS = MixtureSettings()
RELEASED = MixtureSettings(scale=True, max_iterations=10, tolerance=1e-2, covariance_floor=5e-4)
SETTINGS = pytest.mark.parametrize("settings", [DEFAULTS, RELEASED], ids=["sklearn_defaults", "released_program"])

SHAPES: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "far_apart": lambda r: np.r_[r.normal(0.2, 0.1, 300), r.normal(3.0, 0.5, 200)],
    "overlapping": lambda r: np.r_[r.normal(1.0, 0.6, 250), r.normal(2.0, 0.8, 250)],
    "few_noisy": lambda r: np.r_[r.gamma(1.0, 0.2, 480), r.normal(4.0, 1.0, 20)],
    "mostly_noisy": lambda r: np.r_[r.gamma(1.0, 0.2, 30), r.normal(4.0, 1.0, 470)],
    "one_mode": lambda r: r.normal(2.3, 0.3, 400),
    "skewed_losses": lambda r: r.gamma(0.7, 1.5, 500),
    "uniform": lambda r: r.random(200),
    "uncertainties": lambda r: np.r_[r.beta(1, 8, 150), r.beta(8, 3, 100)],
    "a_handful": lambda r: np.r_[r.normal(0, 0.1, 3), r.normal(1, 0.1, 2)],
}


def values_of(shape: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.permutation(SHAPES[shape](rng))


def sklearn_posterior(values: np.ndarray, s: MixtureSettings) -> np.ndarray:
    return reference.sklearn_posterior(values, s.scale, s.max_iterations, s.tolerance, s.covariance_floor)


@SETTINGS
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_posterior_agrees_with_sklearn(shape: str, seed: int, settings: MixtureSettings) -> None:
    values = values_of(shape, seed)
    mixture = fit_mixture(torch.from_numpy(values), settings=settings)
    np.testing.assert_allclose(mixture.low_posterior.numpy(), sklearn_posterior(values, settings), atol=1e-3)


@pytest.mark.parametrize("iterations", [1, 2, 5])
def test_a_fit_that_is_cut_short_takes_exactly_its_iterations(iterations: int) -> None:
    values, settings = values_of("skewed_losses"), MixtureSettings(max_iterations=iterations, tolerance=1e-12)
    mixture = fit_mixture(torch.from_numpy(values), settings=settings)
    np.testing.assert_allclose(mixture.low_posterior.numpy(), sklearn_posterior(values, settings), atol=1e-6)


@SETTINGS
@pytest.mark.parametrize("shape", ["overlapping", "skewed_losses"])
def test_posterior_is_bayes_rule_on_the_fitted_components(shape: str, settings: MixtureSettings) -> None:
    values = values_of(shape)
    m = fit_mixture(torch.from_numpy(values), settings=settings)
    on_scale = ((torch.from_numpy(values) - m.offset) / m.span).tolist()
    parameters = [part.tolist() for part in (m.means, m.variances, m.weights)]
    expected = [reference.posterior(v, *parameters) for v in on_scale]
    np.testing.assert_allclose(m.low_posterior.numpy(), expected, atol=1e-9)


@SETTINGS
def test_a_masked_fit_is_the_fit_of_the_subset(settings: MixtureSettings) -> None:
    values = torch.from_numpy(values_of("few_noisy"))
    mask = torch.rand(len(values), generator=torch.Generator().manual_seed(1)) < 0.4
    masked, alone = fit_mixture(values, mask, settings), fit_mixture(values[mask], settings=settings)
    torch.testing.assert_close(masked.low_posterior[mask], alone.low_posterior, rtol=0, atol=1e-9)
    torch.testing.assert_close(masked.means, alone.means)
    torch.testing.assert_close(masked.variances, alone.variances)
    torch.testing.assert_close(masked.weights, alone.weights)
    assert not masked.low_posterior[~mask].any()


def assert_sound(m: Mixture) -> None:
    parts: tuple[Tensor, ...] = (m.low_posterior, m.means, m.variances, m.weights, m.offset, m.span)
    assert all(torch.isfinite(part).all() for part in parts)
    assert ((m.low_posterior >= 0) & (m.low_posterior <= 1)).all()


@SETTINGS
@pytest.mark.parametrize("values", [[0.7], [0.7] * 6, [0.0] * 3, [-2.5, -2.5]], ids=repr)
def test_what_cannot_be_split_belongs_to_component_0(values: list[float], settings: MixtureSettings) -> None:
    m = fit_mixture(torch.tensor(values), settings=settings)
    assert m.low_posterior.tolist() == [1.0] * len(values)
    assert_sound(m)


@SETTINGS
@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_left_out(odd: float, settings: MixtureSettings) -> None:
    values = torch.tensor([0.1, odd, 0.2, 3.0, 3.1, odd])
    finite = torch.isfinite(values)
    m, clean = fit_mixture(values, settings=settings), fit_mixture(values[finite], settings=settings)
    assert_sound(m)
    torch.testing.assert_close(m.low_posterior[finite], clean.low_posterior)
    assert not m.low_posterior[~finite].any()


@SETTINGS
@pytest.mark.parametrize("values", [[0.0, 1.0], [0.0, 0.0, 0.0, 1.0], [1e-30, 2e-30], [0.0, 1e4]], ids=repr)
def test_two_different_values_give_a_sound_fit(values: list[float], settings: MixtureSettings) -> None:
    m = fit_mixture(torch.tensor(values, dtype=torch.float64), settings=settings)
    assert_sound(m)
    assert m.low_posterior[0] >= m.low_posterior[-1]


@pytest.mark.gpu
@SETTINGS
def test_the_gpu_gives_the_cpu_answer(settings: MixtureSettings) -> None:
    values = torch.from_numpy(values_of("skewed_losses"))
    on_gpu = fit_mixture(values.cuda(), settings=settings).low_posterior.cpu()
    torch.testing.assert_close(on_gpu, fit_mixture(values, settings=settings).low_posterior, rtol=0, atol=1e-6)


def test_without_a_floor_a_component_of_equal_values_still_has_a_posterior() -> None:
    fitted = fit_mixture(torch.tensor([0.0, 0.0, 0.0, 5.0]), settings=MixtureSettings(covariance_floor=0.0))
    assert fitted.low_posterior.round().tolist() == [1, 1, 1, 0]

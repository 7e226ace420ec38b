"""The Beta mixture against EM in plain loops over SciPy's densities, a fit by likelihood, and degenerate input."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from puridiver.spr.cleanness import fit_beta_mixture


def sampled(n: int = 400, seed: int = 0, low: tuple = (4, 12), high: tuple = (14, 4), share: float = 0.6):
    """Values of two Beta components and which of them are of the high one."""
    rng = np.random.default_rng(seed)
    is_high = rng.random(n) < share
    return np.where(is_high, rng.beta(*high, n), rng.beta(*low, n)), is_high


def reference_em(x: np.ndarray, iterations: int) -> list[tuple[float, float, float]]:
    """(alpha, beta, weight) of each component, one value at a time."""
    found = [(1.0, 2.0, 0.5), (2.0, 1.0, 0.5)]
    for _ in range(iterations):
        r = np.zeros((2, len(x)))
        for i, value in enumerate(x):
            joint = [w * stats.beta.pdf(value, a, b) for a, b, w in found]
            r[:, i] = [p / sum(joint) for p in joint]
        found = []
        for k in range(2):
            mean = sum(r[k] * x) / sum(r[k])
            variance = sum(r[k] * (x - mean) ** 2) / sum(r[k])
            alpha = mean * (mean * (1 - mean) / variance - 1)
            found.append((alpha, alpha * (1 - mean) / mean, sum(r[k]) / len(x)))
    return found


def test_it_is_em_with_moments() -> None:
    x, _ = sampled(150)
    found = fit_beta_mixture(torch.from_numpy(x), iterations=7)
    expected = sorted(reference_em(x, 7), key=lambda c: c[0] / (c[0] + c[1]))
    ours = torch.stack([found.alphas, found.betas, found.weights], dim=1).numpy()
    np.testing.assert_allclose(ours, expected, rtol=1e-8)


def test_a_low_component_that_is_wide_does_not_claim_the_highest_values() -> None:
    rng = np.random.default_rng(0)
    x = torch.from_numpy(np.concatenate([rng.uniform(0, 1, 200), rng.normal(0.7, 0.03, 100)])).clamp(0, 1)
    p = fit_beta_mixture(x).high_posterior
    assert p[x.argmax()] == p.max()


def test_rows_are_fitted_as_each_alone() -> None:
    rows = torch.stack([torch.from_numpy(sampled(60, seed=s)[0]) for s in range(4)]).view(2, 2, 60)
    mask = torch.rand(2, 2, 60, generator=torch.Generator().manual_seed(0)) < 0.8
    together = fit_beta_mixture(rows, mask).high_posterior
    for i in range(2):
        for j in range(2):
            alone = fit_beta_mixture(rows[i, j][mask[i, j]]).high_posterior
            torch.testing.assert_close(together[i, j][mask[i, j]], alone)
            assert not together[i, j][~mask[i, j]].any()


@pytest.mark.parametrize("values", [[0.3] * 5, [0.7], [0.0, 0.0], [1.0]], ids=str)
def test_with_nothing_to_tell_apart_all_are_of_the_high_component(values: list[float]) -> None:
    assert fit_beta_mixture(torch.tensor(values)).high_posterior.tolist() == [1.0] * len(values)


def test_values_that_are_not_numbers_are_left_out() -> None:
    x = torch.from_numpy(sampled(50)[0])
    with_nan = torch.cat([x, torch.tensor([np.nan, np.inf, -np.inf], dtype=torch.float64)])
    found = fit_beta_mixture(with_nan).high_posterior
    torch.testing.assert_close(found[:50], fit_beta_mixture(x).high_posterior)
    assert found[50:].tolist() == [0, 0, 0]
    assert fit_beta_mixture(torch.full((3,), np.nan)).high_posterior.tolist() == [0, 0, 0]

"""The mixture's kernel computes what torch's operations do: on a GPU, and (see test_interpreter) on a CPU."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import Tensor

from puridiver import mixture
from puridiver.memory import puridiver
from puridiver.mixture import MixtureSettings, fit_mixture
from puridiver.nets import base
from puridiver.runtime.device import Runtime
from puridiver.runtime.plans import captured
from tests.test_mixture import DEFAULTS, RELEASED, SHAPES, values_of

ALL_SETTINGS = [DEFAULTS, RELEASED, MixtureSettings(max_iterations=1), MixtureSettings(tolerance=1e-12)]


def cases(device: str) -> list[tuple[Tensor, Tensor, MixtureSettings]]:
    """Values, a mask of those used (all, most, none) and settings; fewer for the slow interpreter on a CPU."""
    found = []
    for settings in ALL_SETTINGS:
        for shape in SHAPES if device == "cuda" else ("overlapping", "few_noisy", "a_handful"):
            values = torch.from_numpy(values_of(shape))[: None if device == "cuda" else 100]
            most = torch.rand(len(values), generator=torch.Generator().manual_seed(1)) < 0.7
            found += [(values, mask, settings) for mask in (torch.ones_like(most), most, torch.zeros_like(most))]
    return found


def compare_all(device: str) -> int:
    """Compares the kernel with torch's operations from the same start; returns how many comparisons were made."""
    from puridiver.runtime.fused_mixture import fit

    for values, mask, s in cases(device):
        x, weight = values.masked_fill(~mask, 0), mask.double()
        start = mixture._maximise(x, weight, mixture._two_means(x, weight), s.covariance_floor)
        expected = mixture._expectation_maximisation(x, weight, s)
        there = [part.to(device) for part in (x, weight, *start)]
        ours = fit(
            there[0], there[1], (there[2], there[3], there[4]), s.max_iterations, s.tolerance, s.covariance_floor
        )
        for mine, torchs in zip(ours, expected, strict=True):
            torch.testing.assert_close(mine.cpu(), torchs, rtol=1e-9, atol=1e-12)
    return len(cases(device))


@pytest.mark.parametrize(
    ("module", "works"),
    [
        ("puridiver.runtime.fused_mixture", mixture.fused_mixture_works),
        ("puridiver.nets._fused_norm", base.fused_norm_works),
        ("puridiver.runtime.fused_eviction", puridiver.fused_eviction_works),
    ],
)
def test_a_gpu_without_a_compiler_falls_back_with_one_line(module, works, monkeypatch, caplog) -> None:
    """Triton missing (here: hidden) is told once, and torch's operations compute."""
    monkeypatch.setitem(sys.modules, module, None)
    works.cache_clear()
    try:
        assert [works(torch.device("cpu")) for _ in range(3)] == [False] * 3
        assert len(caplog.records) == 1
        assert module in caplog.text  # and not what else may be missing on a CPU
    finally:
        works.cache_clear()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_the_kernel_fits_as_torchs_operations_do() -> None:
    assert mixture.fused_mixture_works(torch.device("cuda", torch.cuda.current_device()))
    assert compare_all("cuda") > 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("count", [1, 500, mixture.MOST_FUSED, mixture.MOST_FUSED + 1])
def test_on_a_gpu_a_captured_fit_is_the_cpu_answer(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On both sides of the number from which torch's operations fit, and again with other values in the same place."""
    assert mixture.fused_mixture_works(torch.device("cuda", torch.cuda.current_device()))
    fitted, fused = [], mixture._fused
    monkeypatch.setattr(mixture, "_fused", lambda x, *others: (fitted.append(len(x)), fused(x, *others))[1])
    runtime = Runtime(torch.device("cuda"), "float32", graphs=True)
    fit = captured(runtime, lambda values: fit_mixture(values, settings=DEFAULTS).low_posterior)
    for seed in range(3):
        values = torch.rand(count, generator=torch.Generator().manual_seed(seed)) ** 3
        expected = fit_mixture(values, settings=DEFAULTS).low_posterior
        torch.testing.assert_close(fit(values.cuda()).cpu(), expected, rtol=0, atol=1e-6)
    assert bool(fitted) == (count <= mixture.MOST_FUSED)

"""The fused BatchNorm computes what torch's does: on a GPU, and on a CPU in Triton's interpreter."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver.nets import norm
from puridiver.nets.norm import FOLLOWERS, Norm, follow

SHAPES = [(5, 24, 3, 3), (16, 64, 8, 8), (6, 100, 1, 1), (3, 16, 7, 5)]
NAMES = ("output", "gradient of x", "of the residual", "of the weight", "of the bias", "running mean", "running var")


def arguments(shape: tuple[int, ...], device: str) -> list[Tensor]:
    """x, residual, weight, bias, running mean and variance, gradient: nothing at its usual start value."""
    generator = torch.Generator().manual_seed(0)
    x, residual, gradient = (torch.randn(shape, generator=generator) for _ in range(3))
    weight, bias, mean, var = (torch.randn(shape[1], generator=generator) for _ in range(4))
    return [t.to(device) for t in (3 * x + 5, residual, weight, bias, mean, var.abs() + 0.5, gradient)]


def results(fused: bool, shape: tuple[int, ...], then: str, by_batch: bool, device: str) -> list[Tensor]:
    """Everything that comes out; torch's own in double precision."""
    given = arguments(shape, device)
    x, residual, weight, bias, mean, var, gradient = given if fused else [t.double() for t in given]
    leaves = [t.requires_grad_() for t in (x, residual, weight, bias)]
    added = residual if "add" in then else None
    if fused:
        from puridiver.nets.fused_norm import MODES, FusedNorm

        y = FusedNorm.apply(x, added, weight, bias, mean, var, by_batch, 0.1, 1e-5, MODES[then])
    else:
        y = follow(F.batch_norm(x, mean, var, weight, bias, by_batch, 0.1, 1e-5), then, added)
    y.backward(gradient)
    grads = [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves]
    return [t.detach().float() for t in (y, *grads, mean, var)]


def compare_all(device: str) -> int:
    """Compares every mode on every shape; returns how many comparisons were made."""
    cases = [(s, then, by_batch) for s in SHAPES for then in FOLLOWERS for by_batch in (True, False)]
    for shape, then, by_batch in cases:
        pair = (results(fused, shape, then, by_batch, device) for fused in (True, False))
        for name, ours, torchs in zip(NAMES, *pair, strict=True):
            note = f"{name} of {shape}, {then}, by batch: {by_batch}"
            torch.testing.assert_close(ours, torchs, rtol=2e-4, atol=2e-4, msg=lambda m, note=note: f"{note}: {m}")
    return len(cases) * len(NAMES)


def test_in_the_interpreter_the_kernels_compute_batchnorm() -> None:
    pytest.importorskip("triton")
    program = "from tests.nets.test_fused_norm import compare_all; print('compared', compare_all('cpu'))"
    env = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"compared {len(SHAPES) * len(FOLLOWERS) * 2 * len(NAMES)}" in done.stdout


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_the_kernels_compute_batchnorm() -> None:
    assert norm.fused_norm_works(torch.device("cuda"))
    assert compare_all("cuda") > 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("then", FOLLOWERS)
def test_on_a_gpu_bfloat16_stays_within_its_rounding(then: str) -> None:
    layer = Norm(64, 1e-5).cuda()
    x, residual = torch.randn(2, 48, 64, 16, 16, device="cuda").to(torch.bfloat16)
    added = residual if "add" in then else None
    ours = layer(x, then, added).float()
    torchs = follow(F.batch_norm(x.float(), None, None, training=True), then, None if added is None else added.float())
    assert float((ours - torchs).detach().norm() / torchs.norm()) < 1e-2


def test_a_gpu_without_a_compiler_falls_back_with_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Triton missing (here: hidden) is told once, and the norm is torch's own."""
    monkeypatch.setitem(sys.modules, "puridiver.nets.fused_norm", None)
    norm.fused_norm_works.cache_clear()
    try:
        assert [norm.fused_norm_works(torch.device("cpu")) for _ in range(3)] == [False] * 3
        assert sum("unfused" in record.message for record in caplog.records) == 1
    finally:
        norm.fused_norm_works.cache_clear()


@pytest.mark.parametrize("then", FOLLOWERS)
def test_on_a_cpu_the_norm_is_torchs_with_what_follows(then: str) -> None:
    x, residual = torch.randn(2, 4, 6, 3, 3, generator=torch.Generator().manual_seed(1))
    added = residual if "add" in then else None
    normal = F.batch_norm(x, None, None, training=True)
    expected = {
        "none": normal,
        "relu": normal.relu(),
        "relu_add": normal.relu() + residual,
        "add_relu": (normal + residual).relu(),
    }
    torch.testing.assert_close(Norm(6, 1e-5)(x, then, added), expected[then])

"""Layers: the fused BatchNorm computes torch's (on a GPU, and by test_interpreter on a CPU), folding, the head."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver.nets import Head, base, build_network
from puridiver.nets.base import FOLLOWERS, follow, fused_norm
from puridiver.options import Options
from tests.learner_samples import seeded

SHAPES = [(6, 100, 1, 1), (3, 16, 7, 5)]  # several blocks of channels; several blocks of rows
NAMES = ("output", "gradient of x", "of the residual", "of the weight", "of the bias", "running mean", "running var")


# BatchNorm with what follows it ------------------------------------------------------------------------------------


def arguments(shape: tuple[int, ...], device: str) -> list[Tensor]:
    """x, residual, weight, bias, running mean and variance, gradient: none at its usual initial value."""
    generator = seeded()
    x, residual, gradient = (torch.randn(shape, generator=generator) for _ in range(3))
    weight, bias, mean, var = (torch.randn(shape[1], generator=generator) for _ in range(4))
    return [t.to(device) for t in (3 * x + 5, residual, weight, bias, mean, var.abs() + 0.5, gradient)]


def results(fused: bool, shape: tuple[int, ...], then: str, by_batch: bool, device: str) -> list[Tensor]:
    """All outputs and gradients; torch's own in double precision."""
    given = arguments(shape, device)
    x, residual, weight, bias, mean, var, gradient = given if fused else [t.double() for t in given]
    leaves = [t.requires_grad_() for t in (x, residual, weight, bias)]
    added = residual if "add" in then else None
    if fused:
        y = fused_norm(x, added, weight, bias, mean, var, by_batch, 1e-5, then)
    else:
        y = follow(F.batch_norm(x, mean, var, weight, bias, by_batch, 0.1, 1e-5), then, added)
    y.backward(gradient)
    grads = [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves]
    return [t.detach().float() for t in (y, *grads, mean, var)]


def compare_all(device: str) -> int:
    """Compare every mode on every shape; return the number of comparisons."""
    cases = [(s, then, by_batch) for s in SHAPES for then in FOLLOWERS for by_batch in (True, False)]
    for shape, then, by_batch in cases:
        pair = (results(fused, shape, then, by_batch, device) for fused in (True, False))
        for name, ours, torchs in zip(NAMES, *pair, strict=True):
            note = f"{name} of {shape}, {then}, by batch: {by_batch}"
            torch.testing.assert_close(ours, torchs, rtol=2e-4, atol=2e-4, msg=lambda m, note=note: f"{note}: {m}")
    return len(cases) * len(NAMES)


@pytest.mark.gpu
def test_on_a_gpu_the_kernels_compute_batchnorm() -> None:
    assert base.fused_norm_works(torch.device("cuda"))
    assert compare_all("cuda") > 0


@pytest.mark.gpu
@pytest.mark.parametrize("then", FOLLOWERS)
def test_on_a_gpu_bfloat16_stays_within_its_rounding(then: str) -> None:
    x, residual = torch.randn(2, 48, 64, 16, 16, device="cuda").to(torch.bfloat16)
    added, ones, zeros = residual if "add" in then else None, torch.ones(64).cuda(), torch.zeros(64).cuda()
    ours = fused_norm(x, added, ones, zeros, zeros.clone(), ones.clone(), True, 1e-5, then).float()
    torchs = follow(F.batch_norm(x.float(), None, None, training=True), then, None if added is None else added.float())
    assert float((ours - torchs).norm() / torchs.norm()) < 1e-2


# Folding -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "block_relu"), [("small", "after_add"), ("resnet32", "before_add")])
def test_a_folded_network_computes_the_same(name: str, block_relu: str) -> None:
    generator = seeded()
    settings = Options(head="linear_batchnorm", block_relu=block_relu, batchnorm_epsilon=1e-6)
    net = build_network(name, 5, (16, 16, 3), settings, generator)
    x = torch.randn(8, 3, 16, 16, generator=generator)
    for _ in range(3):
        net.train()(x + torch.randn(x.shape, generator=generator))  # statistics other than the initial ones
    net.eval()
    whole = net(x)
    with torch.no_grad():
        folded = net(x)
    assert not torch.equal(whole.features, folded.features)  # another order of arithmetic: it was folded
    torch.testing.assert_close(folded.features, whole.features.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(folded.logits, whole.logits.detach(), rtol=1e-3, atol=1e-4)
    whole.logits.sum().backward()  # gradients in eval mode are not folded away
    assert all(p.grad is not None for p in net.parameters())


# Head --------------------------------------------------------------------------------------------------------------


def test_the_head_is_linear_or_normalises_logits_over_the_batch() -> None:
    x = torch.randn(50, 6, generator=seeded())
    head = Head(6, 3, Options())
    torch.testing.assert_close(head(x), x @ head.linear.weight.T + head.linear.bias)
    head = Head(6, 3, Options(head="linear_batchnorm"))
    torch.testing.assert_close(head(x), F.batch_norm(x @ head.linear.weight.T, None, None, training=True))
    assert head.linear.bias is None


@pytest.mark.parametrize("kind", ["linear", "linear_batchnorm"])
def test_a_growing_head_keeps_all_that_was_learnt(kind: str) -> None:
    heads = []
    for seed in (5, 5, 6):
        head = Head(6, 4, Options(head=kind))
        base.initialise(head, seeded())
        head(torch.randn(16, 6, generator=seeded(1)))  # statistics other than the initial ones
        head.eval()
        before, state = head.state_dict(), torch.get_rng_state()
        head.grow(7, seeded(seed))
        assert torch.equal(torch.get_rng_state(), state)
        assert not any(module.training for module in head.modules())
        after = head.state_dict()
        assert set(after) == set(before)
        for name, value in before.items():
            assert torch.equal(after[name][: len(value)] if value.ndim else after[name], value)
        assert head(torch.zeros(2, 6)).shape == (2, 7)
        heads.append(head.linear.weight)
    assert torch.equal(heads[0], heads[1])  # new classes depend on the generator alone
    assert not torch.equal(heads[0][4:], heads[2][4:])

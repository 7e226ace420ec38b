from __future__ import annotations

import pytest
import torch

from puridiver.nets import NETWORKS, NetworkSettings, build_network


@pytest.mark.parametrize("name", ["small", "resnet32"])
@pytest.mark.parametrize("block_relu", ["after_add", "before_add"])
def test_a_folded_network_sees_what_the_whole_one_sees(name: str, block_relu: str) -> None:
    """Without gradients BatchNorm is folded into the convolutions: the outputs are the same to rounding."""
    assert name in NETWORKS
    generator = torch.Generator().manual_seed(0)
    settings = NetworkSettings("linear_batchnorm", block_relu, 1e-6)
    net = build_network(name, 5, (16, 16, 3), settings, generator)
    x = torch.randn(8, 3, 16, 16, generator=generator)
    for _ in range(3):
        net.train()(x + torch.randn(x.shape, generator=generator))  # statistics that are not the initial ones
    net.eval()
    whole = net.outputs(x)
    with torch.no_grad():
        folded = net.outputs(x)
    assert not torch.equal(whole.features, folded.features)  # another order of arithmetic: it was folded
    torch.testing.assert_close(folded.features, whole.features.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(folded.logits, whole.logits.detach(), rtol=1e-3, atol=1e-4)


def test_gradients_in_eval_mode_are_not_folded_away() -> None:
    net = build_network("small", 5, (8, 8, 1), NetworkSettings(), torch.Generator().manual_seed(0)).eval()
    net(torch.ones(2, 1, 8, 8)).sum().backward()
    assert all(p.grad is not None for p in net.parameters())

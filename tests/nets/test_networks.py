"""The package's networks: shapes, sizes, the effects of options, and initial weights."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from puridiver.nets import NETWORKS, Network, build_network, choose_network, make_new
from puridiver.nets.base import ConvNorm
from puridiver.nets.resnet import BasicBlock
from puridiver.options import Options
from tests.learner_samples import seeded

PLAIN = Options()
OFFICIAL = Options(head="linear_batchnorm", block_relu="before_add", batchnorm_epsilon=1e-6)


def on_paper(name: str, n_classes: int, input_shape: tuple[int, ...], settings: Options = PLAIN) -> Network:
    """A network without numbers: it has shapes and costs nothing."""
    with torch.device("meta"):
        return NETWORKS[name](n_classes, input_shape, settings)


def n_parameters(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("shape", "settings"), [((8, 8, 1), OFFICIAL), ((32, 48, 3), PLAIN), ((224, 224, 3), PLAIN)])
def test_shapes_of_outputs(name: str, shape: tuple[int, ...], settings: Options) -> None:
    shape = shape[:1] if NETWORKS[name].takes_vectors else shape
    network = on_paper(name, 7, shape, settings)
    features, logits = network(torch.empty(2, *shape[2:], *shape[:2], device="meta"))
    assert logits.shape == (2, 7)
    assert features.shape == (2, network.head.linear.weight.shape[1])
    assert network.head.linear.weight.shape[0] == 7
    norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d)]
    assert {norm.eps for norm in norms} == {settings.batchnorm_epsilon}


# Published figures: ResNet-18 and -34 as widely published; ResNet-32 as in the ResNet paper (464,154) with projections
# instead of zero padding at its two width changes: 16*32 + 2*32 and 32*64 + 2*64 more.
@pytest.mark.parametrize(
    ("name", "size", "n_classes", "expected"),
    [
        ("resnet18", 32, 10, 11_173_962),
        ("resnet18", 224, 1000, 11_689_512),
        ("resnet32", 32, 10, 464_154 + (16 * 32 + 2 * 32) + (32 * 64 + 2 * 64)),
        ("resnet34", 32, 10, 21_282_122),
        ("resnet34", 224, 1000, 21_797_672),
    ],
)
def test_parameter_counts_are_the_published_ones(name: str, size: int, n_classes: int, expected: int) -> None:
    assert n_parameters(on_paper(name, n_classes, (size, size, 3))) == expected
    assert n_parameters(on_paper(name, n_classes, (size, size, 3), OFFICIAL)) == expected + n_classes
    assert n_parameters(on_paper("small", 100, (32, 32, 3))) < 100_000


@pytest.mark.parametrize(
    ("shape", "name"),
    [((8, 8, 1), "convnet"), ((28, 28, 1), "resnet18"), ((64, 64, 3), "resnet18"), ((224, 224, 3), "resnet34")],
)
def test_a_network_is_suggested_by_image_size(shape: tuple[int, int, int], name: str) -> None:
    assert choose_network("auto", shape, torch.device("cuda")) == name
    assert choose_network("auto", shape, torch.device("cpu")) == "convnet"


# Options -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block_relu", ["after_add", "before_add"])
@pytest.mark.parametrize("shortcut_relu", [False, True])
@pytest.mark.parametrize("stride", [1, 2])
def test_a_block_is_two_convolutions_around_a_shortcut(block_relu: str, shortcut_relu: bool, stride: int) -> None:
    """Rows 15 and 27 of docs/fidelity.md."""
    width_in = 6 if stride == 1 else 3
    block = BasicBlock(width_in, 6, stride, Options(block_relu=block_relu, shortcut_relu=shortcut_relu)).eval()
    x = noise(2, width_in, 8, 8)
    with torch.no_grad():
        first, second, shortcut = block.first, block.second, x
        if stride == 2:
            shortcut = block.shortcut.norm(block.shortcut.conv(x))  # type: ignore[operator, union-attr]
            shortcut = shortcut.relu() if shortcut_relu else shortcut
        residual = second.norm(second.conv(first.norm(first.conv(x)).relu()))
        expected = (residual + shortcut).relu() if block_relu == "after_add" else residual.relu() + shortcut
        torch.testing.assert_close(block(x), expected)


def test_the_convnet_pools_before_batchnorm() -> None:
    settings = Options(batchnorm_epsilon=1e-3)
    network = build_network("convnet", 4, (9, 7, 3), settings, seeded(0)).train()
    x, layers, hidden = noise(6, 3, 9, 7), [m for m in network.modules() if isinstance(m, ConvNorm)], []
    assert len(layers) == 2
    found = x
    for layer in layers:
        found = F.max_pool2d(F.conv2d(found, layer.conv.weight, padding=1), 2, ceil_mode=True)
        found = F.batch_norm(found, None, None, training=True, eps=1e-3).relu()
    assert found.shape == (6, 64, 3, 2)  # nothing is left out of an odd side
    network.hidden.register_forward_pre_hook(lambda _, inputs: hidden.extend(inputs))
    network.features(x)
    torch.testing.assert_close(hidden[0], found.flatten(1))
    mean, var = (torch.rand(64, generator=seeded(1)) for _ in range(2))
    layer.eval().norm.running_mean.copy_(mean)
    layer.norm.running_var.copy_(var)
    x, scale = noise(2, 32, 5, 4), (var + 1e-3).rsqrt()[:, None, None]
    pooled = F.max_pool2d(F.conv2d(x, layer.conv.weight, padding=1), 2, ceil_mode=True)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), (pooled - mean[:, None, None]) * scale, rtol=1e-4, atol=1e-5)


# Initial weights ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["small", "convnet", "resnet32"])
@pytest.mark.parametrize("settings", [PLAIN, OFFICIAL], ids=["paper", "official"])
def test_initial_weights_depend_on_the_generator_alone(name: str, settings: Options) -> None:
    def weights(seed: int) -> list[Tensor]:
        torch.rand(3)  # moves the global generator
        before = torch.get_rng_state()
        network = build_network(name, 4, (8, 8, 1), settings, seeded(seed))
        assert torch.equal(torch.get_rng_state(), before)
        return list(network.state_dict().values())

    first, second, other = weights(0), weights(0), weights(1)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_the_convnet_begins_with_torchs_own_weights() -> None:
    network, state = build_network("convnet", 4, (8, 8, 1), PLAIN, seeded(0)), torch.get_rng_state()
    for layer, fan_in in ((network.body[0].conv, 9), (network.body[1].conv, 32 * 9), (network.hidden, 64 * 4)):
        bound = fan_in**-0.5
        assert 0.9 * bound < float(layer.weight.detach().abs().max()) <= bound
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("name", ["small", "convnet"])
def test_a_used_network_can_be_made_new(name: str) -> None:
    network = build_network(name, 4, (8, 8, 1), OFFICIAL, seeded(0))
    used = network.head.linear.weight.clone()
    network(noise(16, 1, 8, 8))
    make_new(network, seeded(3))
    expected = build_network(name, 4, (8, 8, 1), OFFICIAL, seeded(3)).state_dict()
    differing = {key for key, value in network.state_dict().items() if not torch.equal(value, expected[key])}
    # A network with weights of its constructor gets a head that is as new, but not the one of that constructor.
    head = {"head.linear.weight"} if network.keeps_weights else set()
    assert {key for key in differing if not key.endswith("num_batches_tracked")} == head
    assert not torch.equal(network.head.linear.weight, used)

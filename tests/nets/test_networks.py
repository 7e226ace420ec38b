"""Networks: shapes, sizes, the settings' effects, growth and initialisation."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from puridiver.nets import NETWORKS, Head, Network, NetworkSettings, build_network, suggest_network
from puridiver.nets.resnet import BasicBlock

PLAIN = NetworkSettings()
OFFICIAL = NetworkSettings("linear_batchnorm", "before_add", 1e-6)
every_network = pytest.mark.parametrize("name", NETWORKS)
both_settings = pytest.mark.parametrize("settings", [PLAIN, OFFICIAL], ids=["paper", "official"])


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def on_paper(name: str, n_classes: int, image_shape: tuple[int, int, int], settings: NetworkSettings) -> Network:
    """A network without numbers: it knows its shapes, and costs nothing."""
    with torch.device("meta"):
        return NETWORKS[name](n_classes, image_shape, settings)


def n_parameters(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed))


# Shapes and sizes ----------------------------------------------------------------------------------------------


@every_network
@pytest.mark.parametrize("size", [8, 28, 32, 64, 224])
@pytest.mark.parametrize(("channels", "settings"), [(1, OFFICIAL), (3, PLAIN)], ids=["grey_official", "rgb_paper"])
def test_shapes_of_outputs(name: str, size: int, channels: int, settings: NetworkSettings) -> None:
    network = on_paper(name, 7, (size, size, channels), settings)
    images = torch.empty(2, channels, size, size, device="meta")
    features, logits = network.outputs(images)
    assert logits.shape == (2, 7)
    assert features.shape == (2, network.class_weights.shape[1])
    assert network.class_weights.shape[0] == 7
    assert network(images).shape == (2, 7)


@every_network
def test_images_need_not_be_square(name: str) -> None:
    network = on_paper(name, 3, (32, 48, 3), PLAIN)
    assert network(torch.empty(2, 3, 32, 48, device="meta")).shape == (2, 3)


@pytest.mark.parametrize("name", ["small", "resnet32"])
@both_settings
def test_forward_is_the_head_on_the_features(name: str, settings: NetworkSettings) -> None:
    network = build_network(name, 4, (8, 8, 1), settings, seeded(0)).eval()
    with torch.no_grad():
        features, logits = network.outputs(noise(3, 1, 8, 8))
        torch.testing.assert_close(network(noise(3, 1, 8, 8)), logits)
        torch.testing.assert_close(network.head(features), logits)
        linear = features @ network.class_weights.T
    if settings is PLAIN:
        torch.testing.assert_close(linear + network.head.linear.bias, logits)


@both_settings
@pytest.mark.parametrize("image_shape", [(8, 8, 1), (28, 28, 1), (32, 32, 3)])
def test_the_small_network_is_small(settings: NetworkSettings, image_shape: tuple[int, int, int]) -> None:
    assert n_parameters(on_paper("small", 100, image_shape, settings)) < 100_000


# Known figures: ResNet-18 and -34 as widely published; ResNet-32 as in the ResNet paper (464,154) with projections
# instead of zero padding at its two width changes: 16*32 + 2*32 and 32*64 + 2*64 more.
@pytest.mark.parametrize(
    ("name", "size", "n_classes", "expected"),
    [
        ("resnet18", 32, 10, 11_173_962),
        ("resnet18", 32, 100, 11_220_132),
        ("resnet18", 224, 1000, 11_689_512),
        ("resnet32", 32, 10, 464_154 + (16 * 32 + 2 * 32) + (32 * 64 + 2 * 64)),
        ("resnet34", 32, 10, 21_282_122),
        ("resnet34", 224, 1000, 21_797_672),
    ],
)
def test_parameter_counts_are_the_published_ones(name: str, size: int, n_classes: int, expected: int) -> None:
    assert n_parameters(on_paper(name, n_classes, (size, size, 3), PLAIN)) == expected


def test_the_batchnorm_head_trades_the_bias_for_two_figures_a_class() -> None:
    shape = (32, 32, 3)
    difference = n_parameters(on_paper("resnet18", 10, shape, OFFICIAL)) - n_parameters(
        on_paper("resnet18", 10, shape, PLAIN)
    )
    assert difference == 2 * 10 - 10


@pytest.mark.parametrize("name", ["resnet18", "resnet34"])
def test_small_images_keep_their_resolution_in_the_stem_and_large_ones_do_not(name: str) -> None:
    small, large = on_paper(name, 10, (32, 32, 3), PLAIN), on_paper(name, 10, (224, 224, 3), PLAIN)
    assert small.stem(torch.empty(1, 3, 32, 32, device="meta")).shape == (1, 64, 32, 32)  # type: ignore[operator]
    assert large.stem(torch.empty(1, 3, 224, 224, device="meta")).shape == (1, 64, 56, 56)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("shape", "name"),
    [((8, 8, 1), "small"), ((28, 28, 1), "resnet18"), ((32, 32, 3), "resnet18"), ((224, 224, 3), "resnet34")],
)
def test_a_network_is_suggested_by_image_size(shape: tuple[int, int, int], name: str) -> None:
    assert suggest_network(shape, torch.device("cuda")) == name
    assert suggest_network(shape, torch.device("cpu")) == "small"


# Settings ------------------------------------------------------------------------------------------------------


def block_without_residual(block_relu: str) -> BasicBlock:
    block = BasicBlock(4, 4, 1, NetworkSettings(block_relu=block_relu)).eval()
    nn.init.zeros_(block.second.norm.weight)
    return block


def test_block_relu_after_add_cuts_the_sum() -> None:
    x = noise(2, 4, 5, 5)
    torch.testing.assert_close(block_without_residual("after_add")(x), x.relu())


def test_block_relu_before_add_leaves_the_shortcut_alone() -> None:
    x = noise(2, 4, 5, 5)
    torch.testing.assert_close(block_without_residual("before_add")(x), x)


@pytest.mark.parametrize(("block_relu", "stride"), [("after_add", 1), ("before_add", 2)])
def test_a_block_is_two_convolutions_around_a_shortcut(block_relu: str, stride: int) -> None:
    block = BasicBlock(3, 6, stride, NetworkSettings(block_relu=block_relu)).eval()
    x = noise(2, 3, 8, 8)
    with torch.no_grad():
        first, second = block.first, block.second
        residual = second.norm(second.conv(first.norm(first.conv(x)).relu()))
        shortcut = block.shortcut(x)
        expected = (residual + shortcut).relu() if block_relu == "after_add" else residual.relu() + shortcut
        torch.testing.assert_close(block(x), expected)


def test_a_shortcut_may_have_a_relu_of_its_own() -> None:
    """As in the released program, whose features are never negative (row 27)."""
    x = noise(2, 3, 8, 8)
    plain, cut = (
        BasicBlock(3, 6, 2, NetworkSettings(block_relu="before_add", shortcut_relu=relu)).eval()
        for relu in (False, True)
    )
    cut.load_state_dict(plain.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(cut.shortcut(x), plain.shortcut(x).relu())
        assert plain(x).min() < 0 <= cut(x).min()


@every_network
@pytest.mark.parametrize("epsilon", [1e-6, 1e-3])
def test_epsilon_reaches_every_batchnorm(name: str, epsilon: float) -> None:
    network = on_paper(name, 5, (32, 32, 3), NetworkSettings("linear_batchnorm", "after_add", epsilon))
    norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d)]
    assert isinstance(norms[-1], nn.BatchNorm1d)
    assert {norm.eps for norm in norms} == {epsilon}


def test_the_linear_head_has_a_bias_and_no_norm() -> None:
    head = Head(6, 3, PLAIN)
    x = noise(5, 6)
    torch.testing.assert_close(head(x), x @ head.linear.weight.T + head.linear.bias)


def test_the_batchnorm_head_normalises_logits_over_the_batch() -> None:
    head = Head(6, 3, OFFICIAL)
    logits = head(noise(50, 6)).detach()
    torch.testing.assert_close(logits.mean(dim=0), torch.zeros(3), rtol=0, atol=1e-5)
    torch.testing.assert_close(logits.var(dim=0, unbiased=False), torch.ones(3), rtol=0, atol=1e-3)
    assert head.linear.bias is None


def test_wrong_names_are_refused_with_the_allowed_ones() -> None:
    with pytest.raises(ValueError, match=r"resnet18.*resnet32.*resnet34.*small.*got 'vgg'"):
        build_network("vgg", 3, (8, 8, 1), PLAIN, seeded(0))
    with pytest.raises(ValueError, match=r"linear.*linear_batchnorm.*got 'mlp'"):
        build_network("small", 3, (8, 8, 1), NetworkSettings(head="mlp"), seeded(0))
    with pytest.raises(ValueError, match=r"after_add.*before_add.*got 'never'"):
        build_network("resnet32", 3, (8, 8, 1), NetworkSettings(block_relu="never"), seeded(0))


# Growth --------------------------------------------------------------------------------------------------------


def lived_in(settings: NetworkSettings) -> Network:
    """A network whose BatchNorm has seen data."""
    network = build_network("small", 4, (8, 8, 1), settings, seeded(0))
    network(noise(16, 1, 8, 8, seed=1))
    return network.eval()


@both_settings
def test_growth_keeps_the_old_classes_logits(settings: NetworkSettings) -> None:
    network, images = lived_in(settings), noise(6, 1, 8, 8)
    before = network(images).detach()
    network.head.grow(7, seeded(5))
    after = network.eval()(images).detach()
    assert after.shape == (6, 7)
    torch.testing.assert_close(after[:, :4], before, rtol=0, atol=1e-6)


@both_settings
def test_growth_keeps_every_learnt_figure_to_the_bit(settings: NetworkSettings) -> None:
    head = lived_in(settings).head
    before = {name: value.clone() for name, value in head.state_dict().items()}
    head.grow(7, seeded(5))
    after = head.state_dict()
    assert set(after) == set(before)
    for name, value in before.items():
        assert torch.equal(after[name][: len(value)] if value.ndim else after[name], value)


def test_new_classes_start_from_the_generator() -> None:
    heads = [lived_in(PLAIN).head for _ in range(3)]
    for head, seed in zip(heads, (1, 1, 2), strict=True):
        head.grow(7, seeded(seed))
    assert torch.equal(heads[0].linear.weight, heads[1].linear.weight)
    assert not torch.equal(heads[0].linear.weight[4:], heads[2].linear.weight[4:])


def test_growth_leaves_a_network_that_is_only_looking_in_that_state() -> None:
    network = lived_in(OFFICIAL)
    network.head.grow(7, seeded(5))
    assert not any(module.training for module in network.modules())


# Initialisation ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["small", "resnet32"])
@both_settings
def test_initial_weights_depend_on_the_generator_alone(name: str, settings: NetworkSettings) -> None:
    def weights(seed: int) -> list[Tensor]:
        torch.rand(3)  # the global generator moves on; the weights should not care
        return list(build_network(name, 4, (8, 8, 1), settings, seeded(seed)).state_dict().values())

    first, second, other = weights(0), weights(0), weights(1)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_the_first_layers_signal_is_neither_lost_nor_blown_up() -> None:
    network = build_network("resnet32", 10, (32, 32, 3), PLAIN, seeded(0))
    features = network.features(noise(8, 3, 32, 32)).detach()
    assert torch.isfinite(features).all()
    assert 0.01 < float(features.std()) < 100


def test_building_leaves_the_global_generator_untouched() -> None:
    before = torch.get_rng_state()
    build_network("small", 4, (8, 8, 1), PLAIN, seeded(0))
    assert torch.equal(torch.get_rng_state(), before)


def test_growth_leaves_the_global_generator_untouched() -> None:
    head = lived_in(PLAIN).head
    before = torch.get_rng_state()
    head.grow(7, seeded(5))
    assert torch.equal(torch.get_rng_state(), before)

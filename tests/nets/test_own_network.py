"""Networks from outside the package: their weights, their errors, and learning with them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import puridiver
from puridiver.nets import Head, Network, build_network, make_new
from puridiver.options import Options
from puridiver.recipes import recipe
from puridiver.runtime.device import Runtime
from puridiver.runtime.model import TrainableModel, sgd
from tests.learner_samples import SHAPE, feed, patterns

QUICK: dict[str, Any] = {"sampler": "rsv", "trainer": "plain", "device": "cpu", "seed": 1, "batch_size": 8}


class Tokens(Network):
    """Has what the package's networks lack: LayerNorm, attention, free parameters, biases."""

    name = "tokens"

    def __init__(self, n_classes: int, input_shape: tuple[int, int, int], settings: Options) -> None:
        super().__init__()
        self.cut = nn.Conv2d(input_shape[2], 16, 4, stride=4)
        self.places = nn.Parameter(torch.randn(4, 16))
        self.norm = nn.LayerNorm(16)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.head = Head(16, n_classes, settings)

    def features(self, images: Tensor) -> Tensor:
        tokens = self.norm(self.cut(images).flatten(2).transpose(1, 2) + self.places)
        return (tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0]).mean(dim=1) * self.scale


class Pretrained(Tokens):
    """Starts from known weights, some of them frozen."""

    name = "pretrained"

    def __init__(self, *words: Any) -> None:
        super().__init__(*words)
        with torch.no_grad():
            self.cut.weight.fill_(0.25)
        self.places.requires_grad = False


class Volume(Network):
    """Has 5-D weights, which cannot be channels-last, and 4-D ones, which can."""

    name = "volume"

    def __init__(self, n_classes: int, input_shape: tuple[int, int, int], settings: Options) -> None:
        super().__init__()
        self.deep, self.flat = nn.Conv3d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3)
        self.head = Head(8, n_classes, settings)

    def features(self, images: Tensor) -> Tensor:
        return self.flat(self.deep(images[:, None]).relu().mean(dim=2)).mean(dim=(2, 3))


@pytest.fixture(autouse=True)
def _registered(forgotten_plugins: None) -> None:
    for kind in (Tokens, Pretrained, Volume):
        puridiver.register(kind)


def built(name: str, seed: int = 0) -> Any:
    return build_network(name, 3, SHAPE, Options(), torch.Generator().manual_seed(seed))


def weights(network: nn.Module) -> Tensor:
    return torch.cat([value.detach().flatten() for value in network.state_dict().values()])


def learned(**settings: Any) -> puridiver.Learner:
    learner = feed(puridiver.Learner(3, SHAPE, 12, **{**QUICK, "network": Tokens, **settings}), *patterns(48))
    learner.consolidate(2)
    return learner


# Weights -----------------------------------------------------------------------------------------------------------


def test_weights_depend_on_the_seed_alone_even_in_threads() -> None:
    """Lanes are threads, and torch's global generator belongs to the whole process."""
    torch.manual_seed(5)
    before = torch.get_rng_state()
    alone = [weights(built("tokens", seed)) for seed in range(8)]
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda seed: weights(built("tokens", seed)), range(8)))
    assert all(torch.equal(one, other) for one, other in zip(alone, together, strict=True))
    assert not torch.allclose(alone[0], alone[1])
    generator = torch.Generator().manual_seed(0)  # two networks of one generator differ, too
    assert not torch.allclose(*(weights(build_network("tokens", 3, SHAPE, Options(), generator)) for _ in range(2)))


def test_weights_of_the_constructor_stay() -> None:
    assert bool((built("pretrained").cut.weight == 0.25).all())
    network: Any = learned(network=Pretrained).trainer.networks[0]
    assert not bool((network.cut.weight == 0.25).all())
    assert not network.places.requires_grad


def test_a_network_is_made_new_in_place_even_with_another_head() -> None:
    results = []
    for seed in (0, 8):
        network = built("tokens", seed)
        network.add_module("head", nn.Linear(network.head.linear.in_features, 5))
        parameters = list(network.parameters())
        make_new(network, torch.Generator().manual_seed(3))
        assert all(now is before for now, before in zip(network.parameters(), parameters, strict=True))
        results.append(weights(network))
    assert torch.equal(*results)


# Errors ------------------------------------------------------------------------------------------------------------


class OtherHead(Tokens):
    """Takes the head of another number of classes, or no head."""

    name, n_classes = "other-head", 0

    def __init__(self, n_classes: int, *words: Any) -> None:
        super().__init__(self.n_classes or n_classes, *words)
        if not self.n_classes:
            del self.head


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({}, "puridiver.Head"),
        ({"n_classes": 7}, "3 classes, but has 7"),
        ({"__init__": lambda self, n_classes: None}, "constructor"),
    ],
)
def test_a_network_that_cannot_be_used_is_refused(changes: dict[str, Any], error: str) -> None:
    kind = type("Wrong", (OtherHead,), {"name": "wrong", **changes})
    with pytest.raises(ValueError, match=error):
        puridiver.Learner(3, SHAPE, 12, network=kind, device="cpu")


# Learning ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Tokens, Volume])
def test_a_learner_learns_with_it_and_is_saved(kind: type[Network], tmp_path: Path) -> None:
    learner = learned(network=kind)
    images, _ = patterns(24, seed=7)
    loaded = puridiver.Learner.load(learner.save(tmp_path / "saved"), device="cpu")
    np.testing.assert_array_equal(loaded.predict_proba(images), learner.predict_proba(images))


def test_bfloat16_uses_autocast_and_returns_float32() -> None:
    images = torch.from_numpy(patterns(6)[0]).permute(0, 3, 1, 2)
    exact, rough = (
        TrainableModel(built("tokens"), Runtime(torch.device("cpu"), how), sgd(recipe("official")))
        for how in ("float32", "bfloat16")
    )
    for found, wanted in zip(rough.outputs(images), exact.outputs(images), strict=True):
        assert found.dtype == torch.float32
        assert not torch.equal(found, wanted)
        torch.testing.assert_close(found, wanted, rtol=0.1, atol=0.05)


@pytest.mark.gpu
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-3), ("bfloat16", 0.1)])
def test_captured_steps_of_it_learn_what_eager_ones_do(precision: str, tolerance: float) -> None:
    images, _ = patterns(24, seed=7)
    found = [
        learned(device="cuda", precision=precision, graphs=graphs).predict_proba(images) for graphs in (True, False)
    ]
    np.testing.assert_allclose(*found, atol=tolerance)

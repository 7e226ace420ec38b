"""Networks from outside the package."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import puridiver
from puridiver import augment, data, plugins
from puridiver.cli import main
from puridiver.grid.spec import read_grid
from puridiver.grid.table import make_table
from puridiver.memory import SAMPLERS
from puridiver.method_check import find_faults
from puridiver.metrics.joint import joint_features
from puridiver.nets import NETWORKS, Network, NetworkSettings, build_network, make_new
from puridiver.recipes import recipe
from puridiver.runs.config import RunConfig
from puridiver.runs.provenance import command_for, identify
from puridiver.runtime.device import Runtime
from puridiver.runtime.model import Trainee, sgd
from puridiver.trainers import TRAINERS
from tests.grid.samples import rows_of
from tests.learner_samples import SHAPE, TINY, patterns
from tests.nets.own_networks import Read, Tokens, Volume, built, learned, mine, weights

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_methods.py"
DOCUMENT = Path(__file__).parents[2] / "docs" / "METHODS.md"
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _registered(forgotten_plugins: None) -> None:
    puridiver.register(Tokens)
    puridiver.register(Read)


def test_all_weights_are_the_seeds_and_no_global_generator_is_touched() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = weights(built("tokens"))
    torch.manual_seed(6)
    assert torch.equal(weights(built("tokens")), first)
    assert not torch.allclose(weights(built("tokens", 1)), first)
    torch.manual_seed(5)
    built("tokens")
    assert torch.equal(torch.get_rng_state(), before)
    generator = torch.Generator().manual_seed(0)
    pair = [weights(build_network("tokens", 3, SHAPE, NetworkSettings(), generator)) for _ in range(2)]
    assert not torch.allclose(*pair)  # Co-teaching needs two that differ


def test_weights_are_the_seeds_also_where_many_threads_make_networks() -> None:
    """Lanes are threads, and torch's global generator is the whole process's."""
    alone = [weights(built("tokens", seed)) for seed in range(12)]
    with ThreadPoolExecutor(6) as threads:
        together = list(threads.map(lambda seed: weights(built("tokens", seed)), range(12)))
    assert all(torch.equal(one, other) for one, other in zip(alone, together, strict=True))


def test_weights_may_have_five_dimensions(tmp_path) -> None:
    """Which cannot have the layout that torch asks of them where it is asked of a whole network."""
    puridiver.register(Volume)
    assert find_faults("network", "volume") == []
    learner = learned(network=Volume)
    network = learner.trainer.trainees[0].network
    assert network.flat.weight.is_contiguous(memory_format=torch.channels_last)
    learner.save(tmp_path / "learner")
    images, _ = patterns(6)
    loaded = puridiver.Learner.load(tmp_path / "learner", device="cpu")
    np.testing.assert_array_equal(loaded.predict_proba(images), learner.predict_proba(images))


def test_weights_that_the_constructor_read_stay() -> None:
    assert bool((built("read").cut.weight == 0.25).all())
    learner = learned(network=Read)
    network = learner.trainer.trainees[0].network
    assert not bool((network.cut.weight == 0.25).all())  # learnt from there
    assert torch.equal(network.places, built_like(learner).places)  # not to be trained


def built_like(learner: puridiver.Learner) -> Network:
    """What the learner's network was at first."""
    seed, _ = np.random.SeedSequence(learner.seed).generate_state(2).tolist()
    return build_network("read", 3, SHAPE, NetworkSettings(), torch.Generator().manual_seed(seed))


def test_a_network_is_made_new_in_place_also_without_its_head() -> None:
    network = built("tokens")
    network.add_module("head", nn.Linear(16, 5))
    places = network.places
    make_new(network, torch.Generator().manual_seed(3))
    assert network.places is places
    again = built("tokens", 8)
    again.add_module("head", nn.Linear(16, 5))
    make_new(again, torch.Generator().manual_seed(3))
    assert torch.equal(weights(network), weights(again))


def test_all_of_a_derived_network_is_made_new() -> None:
    """Also what the package's networks do not have, and what it drew like them."""

    class Scaled(NETWORKS["small"]):  # type: ignore[misc,name-defined]
        name = "scaled"

        def __init__(self, *words: Any) -> None:
            super().__init__(*words)
            self.scale = nn.Parameter(torch.rand(()))

    puridiver.register(Scaled)
    network = built("scaled")
    with torch.no_grad():
        network.scale.fill_(9)
    make_new(network, torch.Generator().manual_seed(3))
    again = built("scaled", 8)
    make_new(again, torch.Generator().manual_seed(3))
    assert network.scale.item() < 1
    assert torch.equal(weights(network), weights(again))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_keeps_a_memory_with_it(sampler: str) -> None:
    learner = learned(sampler=sampler, trainer="plain")
    assert 0 < len(learner.memory) <= 12


@pytest.mark.parametrize("trainer", TRAINERS)
def test_every_trainer_learns_with_it_and_the_same_each_time(trainer: str) -> None:
    sampler = "spr" if trainer == "spr" else "puridiver"
    images, _ = patterns(24, seed=7)
    first, second = (learned(trainer=trainer, sampler=sampler) for _ in range(2))
    assert np.array_equal(first.predict_proba(images), second.predict_proba(images))
    assert np.isfinite(first.predict_proba(images)).all()


def test_it_learns_grows_and_is_saved(tmp_path: Path) -> None:
    learner = puridiver.Learner(None, SHAPE, 60, network=Tokens, device="cpu", trainer="plain", sampler="rsv", seed=1)
    for n_classes in (2, 4):
        images, labels = patterns(200, n_classes)
        learner.observe(images, [f"class {label}" for label in labels])
        learner.consolidate(127)
    images, labels = patterns(100, 4, seed=9)
    right = np.mean([word == f"class {label}" for word, label in zip(learner.predict(images), labels, strict=True)])
    assert right > 0.8
    learner.save(tmp_path / "saved")
    assert np.array_equal(
        puridiver.Learner.load(tmp_path / "saved").predict_proba(images), learner.predict_proba(images)
    )
    del NETWORKS["tokens"]
    with pytest.raises(ValueError, match=r"network should be one of .*small, but got 'tokens' .*needs its plugin"):
        puridiver.Learner.load(tmp_path / "saved")


def test_its_average_grows_with_it() -> None:
    learner = puridiver.Learner(
        None, SHAPE, 12, network=Tokens, device="cpu", seed=1, **{**TINY, "online_average": 0.9}
    )
    for n_classes in (2, 3):
        images, labels = patterns(24, n_classes)
        learner.observe(images, labels)
    assert len(learner.classes) == 3
    assert np.isfinite(learner.predict_proba(images)).all()


def test_bfloat16_is_by_autocast_and_comes_out_as_float32() -> None:
    images = torch.randn(6, 1, 8, 8)
    exact, rough = (
        Trainee(built("tokens"), Runtime(CPU, how), sgd(recipe("official"))) for how in ("float32", "bfloat16")
    )
    assert not rough.shadows
    for found, wanted in zip(rough.outputs(images), exact.outputs(images), strict=True):
        assert found.dtype == torch.float32
        assert not torch.equal(found, wanted)
        torch.testing.assert_close(found, wanted, rtol=0.1, atol=0.05)
    rough.set_rate(0.1)
    for _ in range(30):
        logits = rough.logits(images)
        assert logits.dtype == torch.float32
        rough.step(nn.functional.cross_entropy(logits, torch.arange(6) % 3))
    assert rough.outputs(images).logits.argmax(dim=1).tolist() == [0, 1, 2, 0, 1, 2]


def test_runs_are_known_by_its_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick = ["--stream-limit", "20", "--test-limit", "50", "--epochs", "1", "--quiet", "--no-diversity", "--json"]
    assert main(["run", "--plugin", str(EXAMPLE), "--network", "patches", *quick]) == 0
    row = json.loads(capsys.readouterr().out)
    assert set(row["plugins"]) == {"network patches"}
    assert row["network"] == "patches"
    assert re.search(r"--plugin \S*own_methods.py$", row["command"])
    assert main(["methods", "--plugin", str(EXAMPLE)]) == 0
    assert "small vision transformer" in " ".join(capsys.readouterr().out.split())
    source = data.load("digits")
    cells = []
    for widths in (8, 9):
        plugins._loaded.clear()
        plugins.add(str(mine(tmp_path, WIDTH=str(widths))))
        config = RunConfig(network="mine")
        cells.append(identify(config, source, "stream", Runtime(CPU)).settings_hash)
        assert "--plugin mine.py" in command_for(config)
    assert cells[0] != cells[1]


def test_the_joint_network_of_other_code_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("puridiver.metrics.joint.EPOCHS", 1)
    source, views = data.load("digits"), augment.ViewSettings(0, False, "none", "flip")
    made = []
    for code in ("one", "two", "one"):
        monkeypatch.setitem(plugins._origins, Tokens, plugins.Origin("mine.py", code))
        joint_features(source, "tokens", Runtime(CPU), tmp_path, views)
        made.append(len([path for path in tmp_path.iterdir() if path.is_dir()]))
    assert made == [1, 2, 2]


def test_one_table_compares_networks(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    own = '{sampler = "rsv", trainer = "plain", network = "tokens", title = "attention"}'
    path.write_text(f'[grid]\nmethods = ["rsv+plain", {own}]\nseeds = [0, 1]\ndiversity = false\n')
    grid = read_grid(path)
    rows = rows_of(grid, lambda cell: 0.8 if cell.config.network else 0.6)
    table = make_table(grid, rows)
    assert [[entry.ours for entry in line] for _, line in table.blocks[0].lines] == [
        ["60.0 ± 0.0 (2)"],
        ["80.0 ± 0.0 (2)"],
    ]
    assert "small or tokens" in table.blocks[0].heading


def test_the_documents_network_behaves() -> None:
    text = DOCUMENT.read_text().partition("## A network")[2].partition("```python\n")[2].partition("```")[0]
    exec(compile(text, "METHODS.md", "exec"), {"__name__": "of_the_document"})
    assert find_faults("network", "two-convolutions") == []


@pytest.mark.gpu
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-3), ("bfloat16", 0.1)])
def test_captured_steps_of_it_learn_what_eager_ones_do(precision: str, tolerance: float) -> None:
    images, _ = patterns(24, seed=7)
    found = [
        learned(device="cuda", precision=precision, graphs=graphs).predict_proba(images) for graphs in (True, False)
    ]
    np.testing.assert_allclose(*found, atol=tolerance)

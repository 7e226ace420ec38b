"""Options that a method declares itself: declared in its class, set by its name, part of its runs and of no others."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import puridiver
from puridiver import data, plugins
from puridiver.cli import main
from puridiver.cli.notes import grid_notes
from puridiver.grid.cells import cells
from puridiver.grid.define import read_grid
from puridiver.own_options import declared, values_of
from puridiver.recipes import Options, options_of, replaced
from puridiver.runs.config import RunConfig, resolve_options
from puridiver.runs.provenance import Identity, command_for, identify
from puridiver.runtime.device import Runtime
from tests.learner_samples import patterns, tiny_learner

pytestmark = pytest.mark.usefixtures("forgotten_plugins")

PLUGIN = """
import puridiver, torch

@puridiver.register
class Smoothed(puridiver.Trainer):
    '''Cross-entropy with smoothed labels.'''
    name = "my-smooth"
    own_options = {"share": 0.1, "rounds": puridiver.Option(1, "epochs in one", low=1), "kind": "all"}

    def memory_epoch(self, memory, epoch):
        share = self.own["share"]
        for _ in range(self.own["rounds"]):
            self.plain_epoch(memory, self.one_hot(memory.labels) * (1 - share) + share / self.n_classes)

@puridiver.register
class Half(Smoothed):
    '''The same with another default.'''
    name = "half"
    own_options = {"share": 0.5}
"""
DIVIDEMIX_CONFIG, DIVIDEMIX_SETTINGS = "368244111743cd52", "1ab25b71d1ab4e7d"  # with eta=0.5, of commit 8237c16
QUICK = ["--stream-limit", "20", "--test-limit", "50", "--epochs", "1", "--quiet"]


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(PLUGIN)
    plugins.add(str(path))
    return path


def identity_of(trainer: str, **options: object) -> Identity:
    config = RunConfig(
        sampler="rsv", trainer=trainer, options={name.replace("__", "."): v for name, v in options.items()}
    )
    return identify(config, data.load("digits"), "stream", Runtime(torch.device("cpu")))


def test_a_run_is_set_by_the_methods_name_and_tells_it(plugin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--plugin", str(plugin), "--sampler", "rsv", "--json", *QUICK]
    assert main([*words, "--trainer", "my-smooth", "--set", "my-smooth.share=0.9"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["options_changed"] == {"my-smooth.share": 0.9, "epochs": 1}
    assert "--set my-smooth.share=0.9" in row["command"]
    assert main([*words, "--trainer", "half", "--set", "half.share=0.9"]) == 0
    other = json.loads(capsys.readouterr().out)
    assert other["last_accuracy"] == row["last_accuracy"]  # the same method by another name
    assert other["cell"] != row["cell"]


def test_it_changes_what_is_learnt(plugin: Path) -> None:
    images, labels = patterns(24)

    def learnt(**options: object) -> np.ndarray:
        learner = tiny_learner(trainer="my-smooth", sampler="rsv", **options)
        learner.observe(images, labels)
        learner.consolidate()
        return learner.predict_proba(images)

    assert np.array_equal(learnt(), learnt(**{"my-smooth.share": 0.1}))
    assert not np.array_equal(learnt(), learnt(**{"my-smooth.share": 0.5}))


def test_the_default_said_aloud_is_the_same_run_and_another_value_another(plugin: Path) -> None:
    assert identity_of("my-smooth") == identity_of("my-smooth", **{"my-smooth__share": 0.1})
    other = identity_of("my-smooth", **{"my-smooth__share": 0.2})
    assert other.cell != identity_of("my-smooth").cell
    assert other.settings_hash != identity_of("my-smooth").settings_hash


def test_methods_without_options_of_their_own_keep_their_hashes() -> None:
    """As they were before there were such options."""
    found = identity_of("dividemix", eta=0.5)
    assert found.config_hash.startswith(DIVIDEMIX_CONFIG)
    assert found.settings_hash.startswith(DIVIDEMIX_SETTINGS)
    assert "." not in "".join(resolve_options(RunConfig(), data.load("digits")).to_dict())


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        (
            "my-smooth.shar=1",
            r"no option 'my-smooth.shar': the options of my-smooth are my-smooth.share \(default 0.1\)",
        ),
        ("my-smoth.share=1", "no method or network 'my-smoth' .* did you mean my-smooth"),
        ("nothing.like_it=1", "those that have are .*half, my-smooth"),
        ("share=1", "did you mean .*my-smooth.share or half.share"),
        ("my-smooth.share=much", "option my-smooth.share should be float, but got 'much'"),
        ("my-smooth.rounds=0", "option my-smooth.rounds should be at least 1, but got 0"),
        ("half.share=0.3", "half.share is an option of half, and this run has rsv, my-smooth"),
    ],
)
def test_errors_say_what_there_is(plugin: Path, capsys, assignment: str, message: str) -> None:
    words = ["run", "--plugin", str(plugin), "--sampler", "rsv", "--trainer", "my-smooth", "--set", assignment, *QUICK]
    assert main(words) != 0
    text = " ".join(capsys.readouterr().err.split())
    assert re.search(message, text), text


def test_a_learner_refuses_what_is_not_there(plugin: Path) -> None:
    with pytest.raises(ValueError, match="the options of my-smooth are"):
        tiny_learner(trainer="my-smooth", **{"my-smooth.q": 0.3})
    with pytest.raises(ValueError, match="no method or network 'my-smoothe'"):
        tiny_learner(trainer="my-smooth", **{"my-smoothe.share": 0.3})
    with pytest.raises(ValueError, match="should be float, but got 'x'"):
        tiny_learner(trainer="my-smooth", **{"my-smooth.share": "x"})


def test_a_saved_learner_keeps_them(plugin: Path, tmp_path: Path) -> None:
    learner = tiny_learner(trainer="my-smooth", **{"my-smooth.share": 1})
    loaded = puridiver.Learner.load(learner.save(tmp_path / "saved"), device="cpu")
    assert loaded.trainer.own == learner.trainer.own == {"share": 1.0, "rounds": 1, "kind": "all"}
    assert isinstance(loaded.trainer.own["share"], float)


def test_options_survive_being_written_and_replaced() -> None:
    options = replaced(Options(), {"x.q": 0.3, "eta": 2.0})
    assert options_of(json.loads(json.dumps(options.to_dict()))) == options != Options(eta=2.0)
    assert replaced(options, {"eta": 1.0}).own == {"x.q": 0.3}
    assert hash(options) != hash(replaced(options, {"x.q": 0.4}))


def test_a_class_inherits_options_and_may_give_another_default(plugin: Path) -> None:
    half = plugins.FAMILIES["trainer"][1]["half"]
    assert values_of(half, {"my-smooth.share": 0.7}) == {"share": 0.5, "rounds": 1, "kind": "all"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"Q": 1.0}, "name should be of lower-case letters"),
        ({"q": None}, "should be bool, int, float or str"),
        ({"q": puridiver.Option(2.0, high=1)}, "option q should be at most 1, but got 2.0"),
        (["q"], "own_options should be defaults by name"),
    ],
)
def test_what_is_declared_is_checked_when_it_is_registered(options: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        declared(type("Mine", (puridiver.Sampler,), {"name": "mine", "own_options": options}))


class Deep(puridiver.Network):
    """A network whose width is an option."""

    name = "deep"
    own_options = {"width": 5}  # noqa: RUF012 - as whoever writes one would

    def __init__(self, n_classes, image_shape, settings):
        super().__init__()
        self.width = settings.own["width"]
        self.body = torch.nn.Linear(image_shape[0] * image_shape[1] * image_shape[2], self.width)
        self.head = puridiver.Head(self.width, n_classes, settings)

    def features(self, images):
        return self.body(images.flatten(1))


class Newest(puridiver.Sampler):
    """Keeps some of what came last."""

    name = "newest"
    own_options = {"most": 3}  # noqa: RUF012

    def choose(self, pool, n_old, capacity, moment):
        return torch.arange(len(pool))[-min(capacity, self.own["most"]) :]


def test_samplers_and_networks_have_them_too() -> None:
    learner = tiny_learner(sampler=Newest, network=Deep, **{"newest.most": 2, "deep.width": 7})
    learner.observe(*patterns(8))
    assert learner.memory.samples.arrivals.tolist() == [6, 7]
    assert learner.trainer.networks[0].width == 7
    assert tiny_learner(network=Deep).trainer.networks[0].width == 5


def grid(folder: Path, methods: str, options: str = "") -> Path:
    path = folder / "grid.toml"
    path.write_text(f'[grid]\ndata = ["digits"]\nseeds = [0]\nepochs = 1\nmethods = [{methods}]\n{options}')
    return path


def test_a_grid_gives_them_to_the_methods_that_have_them(plugin: Path, tmp_path: Path) -> None:
    own = '{sampler = "rsv", trainer = "half", options = {"half.share" = 0.3}}'
    path = grid(
        tmp_path, f'"rsv+plain", "rsv+my-smooth", {own}', '[grid.options]\n"my-smooth.share" = 0.4\neta = 2.0\n'
    )
    found = {cell.method.title: cell.config for cell in cells(read_grid(path))}
    assert {title: config.options for title, config in found.items()} == {
        "rsv + plain": {"eta": 2.0},
        "rsv + my-smooth": {"my-smooth.share": 0.4, "eta": 2.0},
        "rsv + half, half.share=0.3": {"half.share": 0.3, "eta": 2.0},
    }
    assert "smooth" not in command_for(found["rsv + plain"])


@pytest.mark.parametrize(
    ("methods", "options", "message"),
    [
        ('"rsv+my-smooth"', '"my-smooth.q" = 1.0', "no option 'my-smooth.q'"),
        ('"rsv+my-smooth"', '"my-smooth.share" = "x"', "should be float"),
        ('"rsv+plain"', '"my-smooth.share" = 0.5', "which no method of the grid has"),
        ('{sampler = "rsv", trainer = "plain", options = {"half.share" = 0.3}}', "", "this run has rsv, plain"),
    ],
)
def test_a_grid_file_that_sets_them_wrongly_is_refused(plugin, tmp_path, methods, options, message) -> None:
    with pytest.raises(puridiver.DataError, match=message):
        read_grid(grid(tmp_path, methods, f"[grid.options]\n{options}\n"))


def test_a_grid_notes_an_option_that_reaches_no_method(plugin: Path, tmp_path: Path) -> None:
    found = read_grid(grid(tmp_path, '"rsv+plain", "rsv+half"'))
    assert not list(grid_notes([found], {"options": {"half.share": 0.3}}))
    (note,) = grid_notes([found], {"options": {"my-smooth.share": 0.3}})
    assert note == "--set my-smooth.share reaches no method of the grid: none of them is my-smooth"


def test_a_table_shows_runs_of_different_values_apart(plugin: Path, tmp_path: Path, capsys) -> None:
    entry = '{{sampler = "rsv", trainer = "my-smooth", options = {{"my-smooth.share" = {}}}}}'
    path = grid(tmp_path, ", ".join(entry.format(share) for share in (0.1, 0.6)))
    words = ["--plugin", str(plugin), "--out", str(tmp_path / "out"), "--epochs", "1"]
    assert main(["grid", str(path), *words, "--quiet", "--engine", "lanes", "--lanes", "1"]) == 0
    capsys.readouterr()
    assert main(["table", str(path), str(tmp_path / "out"), "--plugin", str(plugin), "--format", "csv"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "rsv + my-smooth" in line]
    assert [re.findall(r"my-smooth.share=([0-9.]+)", line) for line in lines] == [["0.1"], ["0.6"]]
    assert all(re.search(r"\d\d\.\d", line) for line in lines)  # each has its run


def test_methods_lists_them(plugin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "--plugin", str(plugin), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["own_options"]
    assert listed["my-smooth.rounds"] == {"help": "epochs in one", "type": "int", "default": 1, "choices": []}
    assert main(["methods", "--plugin", str(plugin), "--options"]) == 0
    assert "half.share\n      float, default 0.5\n" in capsys.readouterr().out


UNREGISTERED = """
class Shared(Smoothed):
    def note(self):
        return self.own["share"]

class Quarter(Shared):
    name = "quarter"

class Nothing(puridiver.Sampler):
    '''Has no choose, and so is no sampler yet.'''
"""


def test_check_tells_options_and_classes_that_were_not_registered(tmp_path: Path, capsys) -> None:
    path = tmp_path / "forgot.py"
    path.write_text(PLUGIN + UNREGISTERED)
    assert main(["methods", "--plugin", str(path), "--check"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "trainer my-smooth: no fault found",
        "trainer my-smooth: options my-smooth.share=0.1, my-smooth.rounds=1, my-smooth.kind=all",
        "trainer half: no fault found",
        "trainer half: options half.share=0.5, half.rounds=1, half.kind=all",
        "Quarter: looks like a trainer, but cannot be chosen: put @puridiver.register before its class",
    ]


def test_a_learner_refuses_options_of_methods_that_it_has_not(plugin: Path) -> None:
    with pytest.raises(ValueError, match=r"half.share is an option of half, and this run has rsv, plain, small"):
        tiny_learner(sampler="rsv", trainer="plain", **{"half.share": 0.3})


def test_a_learner_that_grows_refuses_wrong_values_before_it_has_a_class(plugin: Path) -> None:
    with pytest.raises(ValueError, match=r"my-smooth.rounds should be at least 1, but got 0"):
        tiny_learner(None, trainer="my-smooth", **{"my-smooth.rounds": 0})


def test_a_learner_whose_trainer_cannot_be_made_is_as_it_was() -> None:
    @puridiver.register
    class Picky(puridiver.Trainer):
        """Of three classes or none."""

        name = "picky"

        def __init__(self, context: puridiver.trainers.TrainerContext) -> None:
            if context.n_classes != 3:
                raise ValueError("picky wants three classes")
            super().__init__(context)

        def memory_epoch(self, memory: object, epoch: int) -> None: ...

    images, labels = patterns(9)
    learner = tiny_learner(None, trainer=Picky)
    for _ in range(2):
        with pytest.raises(ValueError, match="picky wants three classes"):
            learner.observe(images[labels < 2], labels[labels < 2])
        assert (learner.classes, learner.seen) == ([], 0)
    learner.observe(images, labels)
    assert len(learner.classes) == 3


def test_a_sampler_and_a_trainer_of_one_name_have_options_each() -> None:
    @puridiver.register
    class OfSamples(puridiver.Sampler):
        """Keeps the first."""

        name = "twins"
        own_options = {"a": 1.0}  # noqa: RUF012

        def choose(self, pool: puridiver.Samples, n: int, moment: puridiver.Moment) -> torch.Tensor:
            return torch.arange(n)

    @puridiver.register
    class OfEpochs(puridiver.Trainer):
        """Learns nothing."""

        name = "twins"
        own_options = {"b": 2.0}  # noqa: RUF012

        def memory_epoch(self, memory: object, epoch: int) -> None: ...

    learner = tiny_learner(sampler="twins", trainer="twins", **{"twins.a": 3.0, "twins.b": 4.0})
    assert (learner.sampler.own, learner.trainer.own) == ({"a": 3.0}, {"b": 4.0})
    with pytest.raises(ValueError, match=r"there is no option 'twins.c'"):
        tiny_learner(sampler="twins", trainer="twins", **{"twins.c": 3.0})


def test_what_a_test_declared_is_forgotten() -> None:
    """Registered by the test before this one, if that ran."""
    with pytest.raises(ValueError, match="no method or network 'twins'"):
        tiny_learner(**{"twins.a": 3.0})

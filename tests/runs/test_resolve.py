"""What a config comes to: defaults filled in for the data, the identity of a run, and the command of a record."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from puridiver import data
from puridiver.data import DataSource, ImageSet, from_arrays
from puridiver.recipes import recipe
from puridiver.runs.config import Role, RunConfig, command_for, place_in_record
from puridiver.runs.resolve import COMMIT, commit, resolve, resolve_run_stream, run_id, shortened
from puridiver.streams import make_stream
from tests.learner_samples import patterns
from tests.runs.samples import DIGITS

PURIDIVER = {"sampler": "puridiver", "trainer": "puridiver"}


def identity(**changes: Any) -> str:
    config = RunConfig(**{**PURIDIVER, **changes})
    source = DIGITS if config.data == "digits" else data.load(config.data)
    found = resolve(config, source)
    return run_id(config, found, resolve_run_stream(config, found, source).content_hash)


# Identity ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"noise": "sym-20"}, {"stream": "disjoint"}, {"seed": 1}, {"sampler": "rsv"}, {"trainer": "auto"},
        {"recipe": "paper"}, {"memory": 50}, {"network": "resnet18"}, {"epochs": 3}, {"options": {"eta": 0.5}},
        {"stream_limit": 9},
        {"holdout": 40, "evaluate_on": "validation"},
    ],
    ids=str,
)  # fmt: skip
def test_what_decides_the_result_changes_the_identity(changes):
    assert identity(**changes) != identity()


@pytest.mark.parametrize(
    "changes",
    [
        {"data_root": "/elsewhere"}, {"memory": 100}, {"epochs": 31}, {"options": {"relabel": True}},
        {"noise": "sym-0.4"}, {"tasks": 5}, {"graphs": False}, {"diversity": False}, {"evaluate_epochs": True},
    ],
    ids=str,
)  # fmt: skip
def test_saying_what_is_so_anyway_and_place_machine_and_measurement_do_not(changes):
    assert identity(**changes) == identity()


def test_methods_that_suit_the_network_and_the_recipe_are_known_by_their_names():
    auto = {"sampler": "auto", "trainer": "auto"}
    assert identity(**auto) == identity(sampler="sieve", trainer="verdict") == identity(**auto, network="convnet")
    for other in ({"network": "resnet18"}, {"recipe": "official"}):
        assert identity(**auto, **other) == identity(**other)


def test_options_of_other_methods_do_not_enter():
    plain = {"sampler": "rsv", "trainer": "plain"}
    # In these recipes only options of PuriDivER differ from what suits digits.
    assert identity(**plain, recipe="official", options={"online_lr": 0.01}) == identity(
        **plain, recipe="official", options={"online_lr": 0.01, "lr": 0.05}
    )
    with pytest.raises(ValueError, match="eta is an option of the trainer puridiver"):
        identity(**plain, options={"eta": 0.5})


def test_noise_matrices_and_manifests_are_known_by_what_they_hold(tmp_path):
    def found(folder: str, share: float) -> str:
        (tmp_path / folder).mkdir()
        np.savetxt(tmp_path / folder / "T.csv", np.eye(10) * (1 - share) + share / 10, delimiter=",")
        return identity(noise=f"matrix:{tmp_path / folder / 'T.csv'}")

    assert found("a", 0.4) == found("c", 0.4) != found("b", 0.6)
    for seed in (0, 1):
        make_stream(DIGITS, seed=seed, n_tasks=2).save(tmp_path / f"s-{seed}.json")
    each, one = str(tmp_path / "s-{seed}.json"), str(tmp_path / "s-0.json")
    assert identity(stream=each, seed=0) == identity(stream=one) != identity(stream=each, seed=1)


# Defaults ----------------------------------------------------------------------------------------------------------


def source_with(**defaults: Any) -> DataSource:
    """Images of 32 px, to which the recipes suit as they are."""
    (train, labels), (test, test_labels) = patterns(12), patterns(6)
    large = [images.repeat(4, axis=1).repeat(4, axis=2).repeat(3, axis=3) for images in (train, test)]
    return dataclasses.replace(from_arrays(large[0], labels, large[1], test_labels), defaults=defaults)


def test_the_recipe_then_the_data_then_the_user():
    source = source_with(epochs=9, flip=False, network="small", memory=7, noise="none", tasks=2, diversity=True)
    found = resolve(RunConfig(recipe="official"), source)
    assert found.options == recipe("official", epochs=9, flip=False)
    assert (found.network, found.memory, found.noise, found.tasks, found.diversity) == ("small", 7, "none", 2, True)
    assert resolve(RunConfig(epochs=4), source).options.epochs == 4
    said = resolve(RunConfig(options={"flip": True, "epochs": 5}, memory=3, tasks=1, diversity=False), source)
    assert (said.options.flip, said.options.epochs, said.memory, said.tasks, said.diversity) == (True, 5, 3, 1, False)


def test_web_sets_get_half_the_epochs():
    halved = source_with(halve_epochs=True, network="small")
    epochs = [resolve(RunConfig(recipe=name), halved).options.epochs for name in ("paper", "official")]
    assert epochs == [128, 127]


@pytest.mark.parametrize(("images", "memory"), [(60, 50), (385, 77), (60_000, 500)])
def test_the_memory_of_small_sets_is_a_part_of_them(images, memory):
    part = ImageSet(torch.zeros(images, 1, 1, 1, dtype=torch.uint8), torch.zeros(images, dtype=torch.int64))
    assert resolve(RunConfig(), DataSource("mine", ("a", "b"), part, part)).memory == memory


def test_a_ready_made_stream_takes_no_settings_of_generated_ones(tmp_path):
    make_stream(DIGITS, n_tasks=2).save(tmp_path / "manifest.json")
    values = {"tasks": 3, "noise": "sym-10", "noise_file": "x", "noise_map": "next", "holdout": 5, "imbalance": 0.1}
    assert set(values) == set(RunConfig().values(Role.STREAM))
    for stream in (str(tmp_path / "manifest.json"), "official:sym40:1"):
        for name, value in values.items():
            config = RunConfig(stream=stream, **{name: value})
            found = resolve(config, DIGITS)
            with pytest.raises(ValueError, match=f"already made, with its own {name}"):
                resolve_run_stream(config, found, DIGITS)


def test_a_shortened_stream_has_the_first_samples_of_each_task():
    whole = make_stream(DIGITS, n_tasks=3)
    cut = shortened(whole, 20)
    starts = (0, *whole.task_ends[:-1])
    assert cut.order.tolist() == [int(row) for start in starts for row in whole.order[start : start + 20]]
    assert cut.labels.tolist() == [int(label) for start in starts for label in whole.labels[start : start + 20]]
    assert cut.task_ends == (20, 40, 60)
    assert shortened(whole, 10**6) == whole


# Records -----------------------------------------------------------------------------------------------------------


def test_the_command_says_what_was_changed_and_no_path_of_this_machine():
    config = RunConfig(
        seed=3, diversity=False, tell_noise=True, graphs=False, data_root="/somewhere/private", splits="/else",
        noise="matrix:/elsewhere/T.csv", options={"lr": 0.1, "flip": False},
    )  # fmt: skip
    assert shlex.split(command_for(config)) == [
        "puridiver", "run", "--data-root", "DATA_ROOT", "--splits", "SPLITS", "--noise", "matrix:T.csv", "--seed", "3",
        "--no-graphs", "--tell-noise", "--no-diversity", "--set", "lr=0.1", "--set", "flip=False",
    ]  # fmt: skip
    assert command_for(RunConfig()) == "puridiver run"


def test_a_record_has_the_paths_from_the_working_folder_and_none_of_the_machine(tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    places = {
        str(here / "mine" / "x" / "manifest.json"): "mine/x/manifest.json",
        "mine/y/manifest.json": "mine/y/manifest.json",
        "../beside.json": "../beside.json",
        str(tmp_path / "beside.json"): "beside.json",
        str(here): "here",
        "blurry-10": "blurry-10",
        f"matrix:{here}/mine/T.csv": "matrix:mine/T.csv",
    }
    assert {given: place_in_record(given) for given in places} == places


def test_the_commit_is_what_is_told_and_else_that_of_the_checkout(monkeypatch):
    assert commit() == "tested"
    monkeypatch.delenv(COMMIT)
    is_checkout = (Path(__file__).parents[2] / ".git").exists()
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", commit() or "") if is_checkout else not commit()

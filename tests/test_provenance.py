"""The identity of a run: what changes it, and what does not."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from puridiver import data
from puridiver.cli import main
from puridiver.recipes import Options, recipe
from puridiver.runs import provenance
from puridiver.runs.config import RunConfig
from puridiver.runs.experiment import Experiment
from puridiver.runs.folder import as_begun, place_in_record
from puridiver.runs.provenance import Identity, command_for, hash_code, identify, settings_hash
from puridiver.runs.resolve import resolve_run_stream
from puridiver.runtime.device import Runtime, multiprocessors
from puridiver.streams import StreamManifest, make_stream

PACKAGE = Path(provenance.__file__).parent
CPU = Runtime(torch.device("cpu"))


def identity(runtime: Runtime = CPU, **changes: Any) -> Identity:
    config, source = RunConfig(**changes), data.load("digits")
    return identify(config, source, resolve_run_stream(config, source).content_hash, runtime)


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1}, {"noise": "sym-20"}, {"stream": "disjoint"}, {"tasks": 2}, {"sampler": "rsv"},
        {"trainer": "plain"}, {"recipe": "paper"}, {"memory": 50}, {"network": "resnet18"}, {"epochs": 3},
        {"options": {"eta": 0.5}}, {"stream_limit": 9}, {"test_limit": 9}, {"tell_noise": True}, {"diversity": False},
        {"holdout": 40}, {"anytime_points": 2}, {"noise": "asym-40", "noise_map": "spr-cifar10"}, {"imbalance": 0.5},
    ],
)  # fmt: skip
def test_what_decides_the_result_changes_the_identity(changes: dict[str, Any]) -> None:
    assert identity(**changes).cell != identity().cell


@pytest.mark.parametrize(
    "changes",
    [
        {"data_root": "/elsewhere"}, {"splits": "/elsewhere"}, {"memory": 100}, {"network": "small"},
        {"epochs": 31}, {"options": {"relabel": True}}, {"diversity": True}, {"imbalance": 1.0},
    ],
)  # fmt: skip
def test_saying_what_is_so_anyway_does_not(changes: dict[str, Any]) -> None:
    assert identity(**changes) == identity()


LATER = {
    "online_average": (0.0, 0.9), "online_prediction": ("network", "both"), "online_crop_flip": (False, True),
    "last_batch": ("left_out", "trained"), "cutmix_sets": ("labelled", "clean"), "weak": ("flip", "crop_flip"),
    "relabel_view": ("before_epoch", "in_step"), "unlabelled_batches": ("equal", "proportional"),
    "checked_share": (0.5, 1.0),
    "arrival_weight": (0.0, 1.0), "shortcut_relu": (False, True), "consolidations": (1, 2),
}  # fmt: skip


def test_every_option_that_came_later_is_tested() -> None:
    assert {field.name for field in dataclasses.fields(Options) if field.metadata["later"]} == set(LATER)


@pytest.mark.parametrize("name", LATER)
def test_an_option_that_came_later_leaves_older_hashes_as_they_were(name: str) -> None:
    off, on = LATER[name]
    before = identity(recipe="official")
    assert name not in recipe("official").hashed()
    assert identity(recipe="official", options={name: off}).config_hash == before.config_hash
    assert identity(recipe="official", options={name: on}).settings_hash != before.settings_hash


def test_published_streams_of_several_seeds_share_their_settings_but_not_those_in_the_files_order() -> None:
    source = data.load("digits")

    def found(stream: str) -> str:
        return settings_hash(RunConfig(stream=stream), source, "", CPU)

    assert found("official:sym40:1") == found("official:sym40:2:shuffled") != found("official:sym20:1")
    # What runs from before there was a choice of order have in their hashes.
    assert provenance._stream_settings(RunConfig(stream="official:sym40:3:listed"), source, "") == "official:sym40"
    assert found("official:sym40:1:listed") == found("official:sym40:2:listed")
    assert found("official:sym40:1:listed") not in (found("official:sym40:1"), found("official:sym20:1:listed"))


def test_the_hash_of_settings_leaves_out_the_seed_and_what_is_only_measured() -> None:
    for changes in ({"seed": 1}, {"evaluate_epochs": True}, {"diversity": False}, {"noise": "sym-0.4"}):
        assert identity(**changes).settings_hash == identity().settings_hash
        assert "noise" in changes or identity(**changes).cell != identity().cell


@pytest.mark.parametrize(
    "changes",
    [
        {"noise": "sym-20"}, {"stream": "disjoint"}, {"tasks": 2}, {"sampler": "rsv"}, {"trainer": "plain"},
        {"recipe": "paper"}, {"memory": 50}, {"network": "resnet18"}, {"epochs": 3}, {"options": {"eta": 0.5}},
        {"stream_limit": 9}, {"test_limit": 9}, {"tell_noise": True}, {"holdout": 40}, {"anytime_points": 2},
        {"noise": "asym-40", "noise_map": "spr-cifar10"}, {"imbalance": 0.5},
    ],
)  # fmt: skip
def test_the_hash_of_settings_has_all_else_that_decides_the_result(changes: dict[str, Any]) -> None:
    assert identity(**changes).settings_hash != identity().settings_hash


def test_the_hash_of_settings_has_the_device_the_precision_and_graphs() -> None:
    cuda = torch.device("cuda")
    kinds = (CPU, Runtime(cuda, "float32"), Runtime(cuda, "bfloat16"), Runtime(cuda, "bfloat16", True))
    assert len({identity(kind).settings_hash for kind in kinds}) == 4


def test_the_kind_of_device_and_the_precision_count_but_not_which_device() -> None:
    first, second = (identity(Runtime(torch.device("cuda", i), "bfloat16", True)) for i in range(2))
    assert first == second
    assert first.config_hash != identity().config_hash
    assert first.cell != identity(Runtime(torch.device("cuda", 0), "float32", True)).cell


def test_a_named_noise_map_is_another_stream_and_an_unknown_one_is_refused() -> None:
    assert identity(noise="asym-40", noise_map="spr-cifar10").cell != identity(noise="asym-40").cell
    with pytest.raises(ValueError, match="next, pairs, spr-cifar10"):
        identity(noise="asym-40", noise_map="mine")


def test_two_noise_matrices_of_one_name_are_two_noises_wherever_they_lie(tmp_path: Path) -> None:
    def found(folder: str, share: float) -> Identity:
        (tmp_path / folder).mkdir()
        np.save(tmp_path / folder / "T.npy", np.eye(10) * (1 - share) + share / 10)
        return identity(noise=f"matrix:{tmp_path / folder / 'T.npy'}")

    one, other, one_elsewhere = found("a", 0.4), found("b", 0.6), found("c", 0.4)
    assert one == one_elsewhere
    assert one.cell != other.cell
    assert one.settings_hash != other.settings_hash


def test_the_command_of_a_noise_matrix_names_the_file_without_its_folder() -> None:
    assert command_for(RunConfig(noise="matrix:/elsewhere/T.npy")) == "puridiver run --noise matrix:T.npy"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    copy = tmp_path / "puridiver"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert hash_code(copy) == provenance.code_hash()
    return copy


@pytest.mark.parametrize("name", ["equations.py", "memory/puridiver.py", "experiment.py"])
def test_an_edit_of_code_that_learns_changes_the_code_hash(package: Path, name: str) -> None:
    with (package / name).open("a") as file:
        file.write("# another thought\n")
    assert hash_code(package) != provenance.code_hash()


def test_a_renamed_file_changes_the_code_hash(package: Path) -> None:
    (package / "mixture.py").rename(package / "mixtures.py")
    assert hash_code(package) != provenance.code_hash()


@pytest.mark.parametrize("name", ["cli/run.py", "report/table.py", "grid/presets.py"])
def test_an_edit_of_code_that_only_shows_results_does_not(package: Path, name: str) -> None:
    with (package / name).open("a") as file:
        file.write("# another thought\n")
    assert hash_code(package) == provenance.code_hash()


def test_a_summary_carries_the_identity_of_its_run() -> None:
    config = RunConfig(
        tasks=2, memory=20, epochs=1, stream_limit=16, test_limit=40, diversity=False, anytime_points=1, device="cpu"
    )
    summary = Experiment(config).run()
    expected = identity(**dataclasses.asdict(config))
    assert {name: summary[name] for name in ("cell", "config_hash", "code_hash", "settings_hash")} == expected.to_dict()
    assert summary["lanes"] == 1


def test_a_record_has_the_paths_from_the_working_folder_and_none_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        f"matrix:{here}/mine/T.npy": "matrix:mine/T.npy",
    }
    assert {given: place_in_record(given) for given in places} == places
    for given, named in places.items():
        assert f"--data {named}" in command_for(RunConfig(data=given))


def test_runs_on_manifests_of_one_name_have_different_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = []
    for folder, noise in (("x", "sym-20"), ("y", "sym-60")):
        (tmp_path / folder).mkdir()
        manifest = f"{folder}/manifest.json"
        assert main(["stream", "make", "--noise", noise, "--tasks", "2", "--out", manifest]) == 0
        capsys.readouterr()
        words = ["--epochs", "1", "--stream-limit", "16", "--test-limit", "40", "--no-diversity", "--json"]
        assert main(["run", "--stream", manifest, "--out", f"run-{folder}", *words]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert [row["stream"] for row in found] == ["x/manifest.json", "y/manifest.json"]
    assert ["--stream x/manifest.json" in row["command"] for row in found] == [True, False]
    assert StreamManifest.load("run-x/manifest.json").content_hash == found[0]["stream_hash"]
    # Finished from another folder, it is still the command that began it.
    monkeypatch.chdir(tmp_path / "x")
    assert as_begun(json.loads((tmp_path / "run-x" / "config.json").read_text())) == {
        "stream": "x/manifest.json", "command": found[0]["command"],
    }  # fmt: skip


def test_each_seed_may_have_a_manifest(tmp_path: Path) -> None:
    source = data.load("digits")
    for seed in (0, 1):
        make_stream(source, seed=seed, n_tasks=2).save(tmp_path / f"s-{seed}.json")
    make_stream(source, seed=2, n_tasks=2, noise="sym-20").save(tmp_path / "s-2.json")
    zero, one, other = (identity(stream=str(tmp_path / "s-{seed}.json"), seed=seed) for seed in (0, 1, 2))
    assert zero.settings_hash == one.settings_hash != other.settings_hash
    assert zero.cell != one.cell
    assert zero.cell == identity(stream=str(tmp_path / "s-0.json")).cell


def test_a_record_tells_no_multiprocessors_of_a_cpu() -> None:
    assert multiprocessors(torch.device("cpu")) == {}


@pytest.mark.gpu
def test_a_record_tells_the_multiprocessors_of_a_gpu() -> None:
    [(name, count)] = multiprocessors(torch.device("cuda")).items()
    assert name == "multiprocessors"
    assert count >= 1

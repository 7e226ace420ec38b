"""What a command line says of a run, and what an older run said."""

from __future__ import annotations

import json

import numpy as np
import pytest

from puridiver.cli import main
from puridiver.cli.run_settings import as_resolved, is_place
from puridiver.runs.config import RunConfig
from puridiver.runs.folder import read_ledger
from tests.learner_samples import patterns

TINY = ["--epochs", "1", "--stream-limit", "16", "--test-limit", "40", "--no-diversity", "--quiet", "--tasks", "2"]


def test_a_folder_of_the_same_name_does_not_hide_a_data_set_or_a_stream(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("digits", "disjoint", "mine"):
        (tmp_path / name).mkdir()
    assert main(["run", *TINY, "--data", "digits", "--stream", "disjoint"]) == 0
    assert [is_place("data", name) for name in ("digits", "mine", "x.npz", "cifar10")] == [False, True, True, False]
    assert [is_place("stream", name) for name in ("disjoint", "s.json", "official:sym40:1")] == [False, True, False]


def own_arrays(folder) -> str:
    images, labels = patterns(60)
    np.savez(folder / "own.npz", train_images=images, train_labels=labels, test_images=images, test_labels=labels)
    return str(folder / "own.npz")


def test_what_data_and_device_decided_when_a_run_began_holds_for_it(tmp_path):
    then = {"noise": "sym-40", "tasks": 2, "memory": 300, "network": "resnet18", "device": "cpu"}
    asked = RunConfig(data=own_arrays(tmp_path), memory=80, device="cpu")
    found = as_resolved(asked, then)
    assert (found.noise, found.tasks, found.memory, found.network) == ("sym-40", 2, 80, "resnet18")
    assert found.trust_labels  # arrays' labels used to count as true
    assert not as_resolved(asked, {**then, "noise": "none"}).trust_labels
    assert as_resolved(asked, {"noise": "none", "tasks": 3, "network": "small"}) == asked  # as it would be today
    assert as_resolved(RunConfig(data="digits"), then) == RunConfig(data="digits")


def test_a_run_of_arrays_from_when_their_labels_counted_as_true_is_continued(tmp_path, capsys):
    words = ["run", *TINY, "--data", own_arrays(tmp_path), "--out", str(tmp_path / "run")]
    assert main([*words, "--trust-labels", "--noise", "sym-40"]) == 0
    begun = json.loads((tmp_path / "run" / "config.json").read_text())
    begun["config"] |= {"trust_labels": False, "noise": None}  # as it would have been written then
    (tmp_path / "run" / "config.json").write_text(json.dumps(begun))
    assert main(["run", "--out", str(tmp_path / "run"), "--resume", "--quiet"]) == 0


def test_a_record_does_not_say_where_a_manifest_lay(tmp_path):
    assert main(["stream", "make", "--tasks", "2", "--out", str(tmp_path / "s.json")]) == 0
    short = [word for word in TINY if word not in ("--tasks", "2")]
    assert main(["run", *short, "--stream", str(tmp_path / "s.json"), "--ledger", str(tmp_path / "led.jsonl")]) == 0
    assert read_ledger(tmp_path / "led.jsonl")[0]["stream"] == "s.json"


def test_the_users_epochs_go_before_those_of_a_grid_file(tmp_path):
    text = '[grid]\nmethods = ["rsv+plain"]\nstream_limit = 8\ntest_limit = 20\ntasks = 2\n[grid.options]\nepochs = 5\n'
    (tmp_path / "g.toml").write_text(text)
    words = ["grid", str(tmp_path / "g.toml"), "--epochs", "2", "--engine", "lanes", "--quiet"]
    assert main([*words, "--out", str(tmp_path / "out")]) == 0
    assert read_ledger(tmp_path / "out" / "ledger.jsonl")[0]["epochs"] == 2


@pytest.mark.parametrize("name", ["x[/y].png", "bad.png"])
def test_files_that_are_left_out_are_named_whatever_their_names(name, tmp_path, capsys):
    from PIL import Image

    for number in range(12):
        where = tmp_path / "pics" / "ab"[number % 2] / f"{number}.png"
        where.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 20 * number).save(where)
    odd = tmp_path / "pics" / "a" / name
    odd.parent.mkdir(exist_ok=True)
    odd.write_text("no image")
    words = ["run", "--data", str(tmp_path / "pics"), "--test-share", "0.3", "--image-size", "8", "--epochs", "1"]
    assert main([*words, "--memory", "4", "--data-root", str(tmp_path / "r"), "--bad-files", "skip"]) == 0
    told = "".join(capsys.readouterr().err.split())
    assert f"leftout,sinceitcannotberead:1file(a/{name})" in told

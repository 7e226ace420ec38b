"""Whole runs: the folder they leave, what they refuse, what is measured on what."""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from puridiver import Learner
from puridiver.cli.main import build_parser
from puridiver.cli.run_settings import config_to_run
from puridiver.data import DataSource, from_arrays
from puridiver.errors import DataError
from puridiver.metrics.memory_snapshot import MemorySnapshot
from puridiver.recipes import SUITS_TINY_IMAGES, recipe
from puridiver.runs import folder as runs
from puridiver.runs import provenance
from puridiver.runs.config import RunConfig, resolve_options
from puridiver.runs.experiment import Experiment
from puridiver.streams import StreamManifest
from tests.learner_samples import PLAIN_VIEWS, SHAPE, patterns

OPTIONS = {**PLAIN_VIEWS, "batch_size": 16, "warmup_epochs": 1, "smallest_set": 0}
FILES = {"config.json", "manifest.json", "memory.safetensors", "metrics.jsonl", "summary.json"}
FIGURES = ("last_accuracy", "average_accuracy", "anytime_area", "forgetting", "memory_purity", "task_accuracy")


def config(**changes: Any) -> RunConfig:
    base = RunConfig(
        tasks=2, memory=30, network="small", epochs=2, device="cpu", diversity=False, anytime_points=2,
        stream_limit=32, test_limit=60, options=OPTIONS,
    )  # fmt: skip
    return dataclasses.replace(base, **changes)


def strict(text: str) -> Any:
    """JSON as the standard has it: NaN and Infinity are not in it."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, dict[str, Any], Experiment]:
    folder = tmp_path_factory.mktemp("runs") / "deep" / "run"
    experiment = Experiment(config())
    return folder, experiment.run(folder), experiment


# The run folder ----------------------------------------------------------------------------------------------------


def test_a_run_leaves_its_files(finished):
    folder, summary, _ = finished
    assert {path.name for path in folder.iterdir()} == FILES
    written = strict((folder / "summary.json").read_text())
    assert written == strict(runs.to_json(summary))


def test_the_summary_has_the_promised_figures(finished):
    summary = finished[1]
    for name in ("last_accuracy", "average_accuracy", "memory_purity", "anytime_area", "stream_noise"):
        assert 0 <= summary[name] <= 1
    assert all(0 <= value <= 1 for value in summary["task_accuracy"] + summary["task_purity"])
    assert -1 <= summary["forgetting"] <= 1
    assert summary["seconds"] > 0
    assert summary["seconds"] == pytest.approx(sum(summary["phase_seconds"].values()))
    assert set(summary["phase_seconds"]) == {"observe", "consolidate", "evaluate", "checkpoint"}
    assert "best_epoch_accuracy" not in summary


def test_the_summary_says_what_was_run(finished):
    summary = finished[1]
    assert (summary["data"], summary["sampler"], summary["trainer"]) == ("digits", "puridiver", "puridiver")
    assert (summary["noise"], summary["noise_rate"], summary["seed"]) == ("sym", 0.4, 0)
    assert summary["stream_noise"] == pytest.approx(0.4, abs=1e-3)
    assert {"puridiver", "python", "torch", "numpy"} <= set(summary["versions"])
    assert summary["options_changed"] == {**OPTIONS, "epochs": 2}
    assert {"commit", "command", "device", "started", "stream_hash"} <= set(summary)


def test_every_event_is_a_line_of_strict_json(finished):
    events = [strict(line) for line in (finished[0] / "metrics.jsonl").read_text().splitlines()]
    assert [event["task"] for event in events if event["event"] == "task"] == [0, 1]
    assert sum(event["event"] == "anytime" for event in events) == 4
    assert sum(event["event"] == "epoch" for event in events) == 4


def test_the_memory_that_is_kept_is_that_of_the_end_with_its_true_labels(finished):
    folder, summary, experiment = finished
    kept, samples = MemorySnapshot.read(folder / "memory.safetensors"), experiment.learner.memory.samples
    np.testing.assert_array_equal(kept.arrivals, samples.arrivals.numpy())
    np.testing.assert_array_equal(kept.images, samples.images.permute(0, 2, 3, 1).numpy())
    assert (kept.given == kept.true).mean() == pytest.approx(summary["memory_purity"])


def test_whoever_listens_hears_every_event_that_is_written(tmp_path):
    experiment, heard = Experiment(config()), []
    experiment.listeners.append(heard.append)
    experiment.run(tmp_path / "run")
    written = [strict(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert strict(runs.to_json(heard)) == written


def test_the_last_accuracy_is_of_the_learner_at_the_end(finished):
    _, summary, experiment = finished
    test = experiment.source.test
    right = experiment.learner.predict(test.images[:60]) == test.labels[:60].numpy()
    assert summary["last_accuracy"] == pytest.approx(right.mean())


def test_the_config_is_enough_to_run_again(finished):
    folder, summary, _ = finished
    written = strict((folder / "config.json").read_text())
    again = Experiment(RunConfig(**written["config"])).run()
    assert [again[name] for name in FIGURES] == [summary[name] for name in FIGURES]
    assert written["resolved"]["memory"] == 30
    assert written["resolved"]["options"]["epochs"] == 2


def test_the_manifest_is_enough_to_meet_the_same_stream(finished):
    folder, summary, experiment = finished
    assert StreamManifest.load(folder / "manifest.json") == experiment.manifest
    again = Experiment(config(stream=str(folder / "manifest.json"), noise=None, tasks=None)).run()
    assert [again[name] for name in FIGURES] == [summary[name] for name in FIGURES]
    assert again["stream_hash"] == summary["stream_hash"]


def test_another_seed_is_another_run(finished):
    again = Experiment(config(seed=1)).run()
    assert again["stream_hash"] != finished[1]["stream_hash"]


def test_a_folder_with_a_run_is_not_overwritten_without_force(tmp_path):
    Experiment(config()).run(tmp_path / "run")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(DataError, match=r"a finished run.*--force"):
        Experiment(config(seed=1)).run(tmp_path / "run")
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before
    summary = Experiment(config(seed=1)).run(tmp_path / "run", force=True)
    assert strict((tmp_path / "run" / "summary.json").read_text())["seed"] == summary["seed"] == 1
    assert (tmp_path / "run" / "metrics.jsonl").read_text().count('"event": "task"') == 2


def test_an_unfinished_run_is_told_from_a_finished_one(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(DataError, match="an unfinished run"):
        Experiment(config()).run(tmp_path)


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(DataError, match=r"run is a file"):
        Experiment(config()).run(tmp_path / "run")


def test_a_run_that_cannot_start_leaves_no_folder(tmp_path):
    with pytest.raises(ValueError, match="holdout"):
        Experiment(config(evaluate_on="validation")).run(tmp_path / "run")
    assert not (tmp_path / "run").exists()


# What is measured on what ------------------------------------------------------------------------------------------


def test_validation_images_never_arrive_and_are_what_accuracy_is_measured_on():
    experiment = Experiment(config(holdout=50, evaluate_on="validation", stream_limit=None, test_limit=None))
    summary = experiment.run()
    rows, stream = experiment.manifest.holdout.copy(), experiment.manifest.order
    assert len(rows) == 50
    assert not set(rows.tolist()) & set(stream.tolist())
    assert experiment.learner.seen == len(stream) == len(experiment.source.train) - 50
    train = experiment.source.train
    right = experiment.learner.predict(train.images[rows]) == train.labels[rows].numpy()
    assert summary["last_accuracy"] == pytest.approx(right.mean())
    assert summary["evaluated_on"] == "validation"
    assert not summary["shortened"]


@pytest.mark.parametrize("limit", [16, 20, 40])
def test_a_stream_limit_is_the_number_of_samples_of_each_task(limit):
    experiment = Experiment(config(stream_limit=limit))
    assert experiment.run()["shortened"]
    assert experiment.learner.seen == 2 * limit


def test_limits_mark_a_run_as_shortened():
    assert config(stream_limit=None).shortened
    assert config(test_limit=None).shortened
    assert not config(stream_limit=None, test_limit=None).shortened


@pytest.mark.parametrize(
    "changes",
    [
        {"evaluate_on": "train"},
        {"memory": 0},
        {"epochs": 0},
        {"tasks": 0},
        {"noise": "sym-140"},
        {"stream": "wild"},
        {"stream_limit": 0},
        {"test_limit": 0},
        {"test_limit": -5},
        {"options": {"speed": 1}},
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused_before_anything_runs(changes):
    with pytest.raises(ValueError, match=r"should|no option"):
        Experiment(config(**changes))


def test_missing_data_is_a_data_error_that_says_what_to_do(tmp_path):
    with pytest.raises(DataError, match="puridiver data fetch cifar10"):
        Experiment(config(data="cifar10", data_root=str(tmp_path)))


def test_the_noise_is_told_on_demand_only():
    assert Experiment(config()).learner.hint is None
    told = Experiment(config(tell_noise=True))
    assert told.learner.hint is not None
    assert told.learner.hint.kind == "sym"
    assert told.learner.hint.rate == pytest.approx(0.4, abs=1e-3)


def test_best_epoch_comes_under_its_own_name_when_asked_for():
    summary = Experiment(config(evaluate_epochs=True)).run()
    assert summary["best_epoch_accuracy"] >= summary["last_accuracy"]


def test_progress_adds_up_to_its_total():
    class Watched:
        total, done = 0, 0

        def start(self, total: int) -> None:
            self.total = total

        def advance(self, amount: int, text: str) -> None:
            self.done += amount

        def event(self, event: dict[str, Any]) -> None: ...

    watched = Watched()
    Experiment(config(), watched).run()
    assert watched.done == watched.total > 0


def test_diversity_is_measured_with_features_that_are_trained_once(tmp_path, monkeypatch):
    (images, labels), (test_images, test_labels) = patterns(60), patterns(12, seed=1)
    np.savez(
        tmp_path / "own.npz",
        train_images=images, train_labels=labels, test_images=test_images, test_labels=test_labels,
    )  # fmt: skip
    asked = config(data=str(tmp_path / "own.npz"), data_root=str(tmp_path), diversity=True, trust_labels=True)
    first = Experiment(asked).run()
    monkeypatch.setattr("puridiver.metrics.joint._Joint", lambda *a: pytest.fail("trained a second time"))
    assert Experiment(asked).run()["memory_diversity"] == first["memory_diversity"] > 0
    assert "memory_diversity" not in Experiment(config()).run()


@pytest.mark.parametrize("known", [True, False])
def test_diversity_is_measured_where_every_true_label_is_known(known, tmp_path):
    (images, labels), (test_images, test_labels) = patterns(60), patterns(12, seed=1)
    true = labels if known else np.where(np.arange(60) == 7, -1, labels)
    np.savez(
        tmp_path / "own.npz", train_images=images, train_labels=(labels + (np.arange(60) % 5 == 0)) % 3,
        train_true_labels=true, test_images=test_images, test_labels=test_labels,
    )  # fmt: skip
    asked = Experiment(config(data=str(tmp_path / "own.npz"), data_root=str(tmp_path), diversity=True, noise="none"))
    if known:
        assert asked.run()["memory_diversity"] > 0
    else:
        with pytest.raises(ValueError, match="diversity is measured by true labels"):
            asked.run()


def test_the_last_anytime_point_of_a_task_is_just_before_its_memory_phase(finished):
    events = [strict(line) for line in (finished[0] / "metrics.jsonl").read_text().splitlines()]
    points = [(event["seen"], event["event"]) for event in events if event["event"] in ("anytime", "task")]
    assert points == [(16, "anytime"), (32, "anytime"), (32, "task"), (48, "anytime"), (64, "anytime"), (64, "task")]


def test_the_sets_are_judged_by_the_labels_of_their_own_samples(finished):
    """Also where the stream was shortened, so that arrivals are not positions in it."""
    folder, summary, experiment = finished
    kept, sets = MemorySnapshot.read(folder / "memory.safetensors"), experiment.learner.trainer.sets
    assert kept.arrivals.tolist() == sets.arrivals.tolist()
    right = kept.given == kept.true
    for code, name in enumerate(("clean", "relabel", "unlabelled")):
        members = sets.codes.numpy() == code
        assert summary[f"{name}_size"] == members.sum()
        judged = {0: right, 1: sets.guesses.numpy() == kept.true, 2: ~right}[code][members]
        assert summary[f"{name}_precision"] == (pytest.approx(judged.mean()) if len(judged) else None)


# Options -----------------------------------------------------------------------------------------------------------


def source_with(**defaults: Any) -> DataSource:
    """Images of 32 px, to which the recipes suit as they are."""
    (train, labels), (test, test_labels) = patterns(12), patterns(6)
    large = [images.repeat(4, axis=1).repeat(4, axis=2) for images in (train, test)]
    return dataclasses.replace(from_arrays(large[0], labels, large[1], test_labels), defaults=defaults)


def test_tiny_images_get_what_suits_them_unless_the_recipe_or_the_user_says_otherwise():
    tiny = from_arrays(*patterns(12), *patterns(6))
    assert resolve_options(RunConfig(), tiny) == recipe("puridiver", **SUITS_TINY_IMAGES)
    assert Learner(3, SHAPE, 5).options == recipe("puridiver", **SUITS_TINY_IMAGES)
    assert Learner(3, SHAPE, 5, epochs=4, strong="autoaugment").options.epochs == 4
    assert Learner(3, SHAPE, 5, recipe=recipe("paper")).options == recipe("paper")
    assert resolve_options(RunConfig(epochs=4), tiny).epochs == 4


@pytest.mark.parametrize(("name", "value"), [("noise", "asym-10"), ("tasks", 3), ("holdout", 5)])
def test_a_stream_that_is_already_made_takes_no_settings(finished, name, value):
    stream = str(finished[0] / "manifest.json")
    with pytest.raises(ValueError, match=f"already made, with its own {name}"):
        Experiment(config(**{"stream": stream, "noise": None, "tasks": None, name: value}))


def test_the_recipe_then_the_data_then_the_user():
    source = source_with(epochs=9, flip=False, network="small", memory=7)
    found = resolve_options(RunConfig(recipe="official"), source)
    assert found == recipe("official", epochs=9, flip=False)
    assert resolve_options(RunConfig(epochs=4), source).epochs == 4
    assert resolve_options(RunConfig(options={"flip": True, "epochs": 5}), source).flip


def test_what_suits_the_data_switches_nothing_on_that_the_recipe_switches_off():
    source = source_with(warmup_epochs=7, smallest_set=3, standardise_scores=True, online_cutmix=0.5)
    assert resolve_options(RunConfig(recipe="paper"), source) == recipe("paper")
    assert resolve_options(RunConfig(recipe="official"), source).warmup_epochs == 7


@pytest.mark.parametrize("defaults", [{"replay": "always"}, {"online_batchnorm": "frozen_when_full"}], ids=str)
def test_what_suits_the_data_leaves_named_switches_off_too(defaults):
    assert resolve_options(RunConfig(recipe="paper"), source_with(**defaults)) == recipe("paper")


# Ledger, strict JSON, provenance -----------------------------------------------------------------------------------


def test_json_has_null_where_python_has_nan():
    value = {"a": math.nan, 1: [math.inf, (1.5, -math.inf)], "b": None}
    assert strict(runs.to_json(value)) == {"a": None, "1": [None, [1.5, None]], "b": None}


def test_a_single_task_without_forgetting_is_still_strict_json(tmp_path):
    Experiment(config(tasks=1, stream="disjoint", noise="none")).run(tmp_path / "run")
    assert strict((tmp_path / "run" / "summary.json").read_text())["forgetting"] is None


def test_the_ledger_keeps_every_row(tmp_path):
    ledger = tmp_path / "new" / "ledger.jsonl"
    for seed in range(3):
        runs.append_to_ledger(ledger, {"seed": seed, "forgetting": math.nan})
    assert runs.read_ledger(ledger) == [{"seed": seed, "forgetting": None} for seed in range(3)]


def test_a_damaged_line_of_the_ledger_is_named(tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text('{"seed": 0}\n\n{"seed": ')
    with pytest.raises(DataError, match="line 3"):
        runs.read_ledger(ledger)


def test_the_recorded_command_runs_the_same_config():
    config = RunConfig(
        noise="asym-20", seed=3, memory=50, tell_noise=True, diversity=False, graphs=False, options={"eta": 0.5}
    )
    command = provenance.command_for(config)
    args = build_parser().parse_args(shlex.split(command)[1:])
    assert config_to_run(args) == config


def test_the_recorded_command_names_no_folder_of_this_machine():
    command = provenance.command_for(RunConfig(data="cifar10", data_root="/somewhere/private", splits="/else"))
    assert command == "puridiver run --data cifar10 --data-root DATA --splits SPLITS"


def test_provenance_names_the_versions():
    assert set(provenance.versions()) == {"puridiver", "python", "torch", "numpy"}


def test_outside_a_checkout_the_commit_comes_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "puridiver" / "provenance.py"))
    monkeypatch.delenv("PURIDIVER_COMMIT", raising=False)
    assert provenance.commit() is None
    monkeypatch.setenv("PURIDIVER_COMMIT", "abc")
    assert provenance.commit() == "abc"

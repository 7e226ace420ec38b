"""Whole runs: the folder they leave, what they refuse, what is measured on what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from puridiver import Learner
from puridiver.files import to_json
from puridiver.metrics import METRICS
from puridiver.metrics.memory_snapshot import MemorySnapshot
from puridiver.runs.config import RunConfig
from puridiver.runs.experiment import Experiment
from puridiver.streams import StreamManifest
from tests.runs.samples import DIGITS, experiment, tiny_config

FILES = {"config.json", "manifest.json", "memory.safetensors", "metrics.jsonl", "summary.json", "learner"}
FIGURES = ("last_accuracy", "average_accuracy", "anytime_area", "forgetting", "memory_purity", "task_accuracy")


def strict(text: str) -> Any:
    """JSON as the standard has it: NaN and Infinity are not in it."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, dict[str, Any], Experiment, list[dict[str, Any]]]:
    folder, heard = tmp_path_factory.mktemp("runs") / "deep" / "run", list[dict[str, Any]]()
    run = experiment(tiny_config())
    run.listeners.append(heard.append)
    return folder, run.run(str(folder), keep_learner=True), run, heard


# The run folder ----------------------------------------------------------------------------------------------------


def test_a_run_leaves_its_files_in_strict_json_and_listeners_hear_every_event(finished):
    folder, summary, _, heard = finished
    assert {path.name for path in folder.iterdir()} == FILES
    assert strict((folder / "summary.json").read_text()) == strict(to_json(summary))
    assert [strict(line) for line in (folder / "metrics.jsonl").read_text().splitlines()] == strict(to_json(heard))


def test_the_summary_has_every_metric_and_says_what_was_run(finished):
    summary = finished[1]
    assert set(METRICS) <= set(summary)
    assert all(0 <= value <= 1 for value in summary["task_accuracy"] + summary["task_purity"])
    assert summary["seconds"] == pytest.approx(sum(summary["phase_seconds"].values()))
    assert set(summary["phase_seconds"]) == {"observe", "consolidate", "evaluate", "checkpoint"}
    assert summary["best_epoch_accuracy"] is summary["memory_diversity"] is None
    assert (summary["data"], summary["sampler"], summary["trainer"]) == ("digits", "puridiver", "puridiver")
    assert (summary["noise"], summary["noise_rate"], summary["seed"], summary["lanes"]) == ("sym", 0.4, 0, 1)
    assert summary["stream_noise"] == pytest.approx(0.4, abs=1e-3)
    assert summary["options"] == {**tiny_config().options, "epochs": 3}
    assert summary["id"] == finished[2].id


def test_the_memory_that_is_kept_is_that_of_the_end_with_its_true_labels(finished):
    folder, summary, run, _ = finished
    kept, samples = MemorySnapshot.read(folder / "memory.safetensors"), run.learner.memory.samples
    np.testing.assert_array_equal(kept.arrivals, samples.arrivals.numpy())
    np.testing.assert_array_equal(kept.images, samples.images.permute(0, 2, 3, 1).numpy())
    assert (kept.given == kept.true).mean() == pytest.approx(summary["memory_purity"])
    # The true labels are those of the kept images, also where the stream was shortened.
    train = DIGITS.train
    for image, true in zip(kept.images, kept.true, strict=True):
        (row,) = np.flatnonzero((train.images.numpy() == image).all(axis=(1, 2, 3)))
        assert true == train.labels[row]
    for code, name in enumerate(("clean", "relabel", "unlabelled")):
        assert summary[f"{name}_size"] == (kept.sets == code).sum()


def test_config_and_manifest_are_enough_to_run_again(finished):
    folder, summary, run, _ = finished
    written = strict((folder / "config.json").read_text())
    assert (written["resolved"]["memory"], written["resolved"]["options"]["epochs"]) == (20, 3)
    assert StreamManifest.load(folder / "manifest.json") == run.manifest
    config = RunConfig.of_dict(written["config"])
    same = RunConfig.of_dict({**written["config"], "stream": str(folder / "manifest.json"), "tasks": None})
    for again in (experiment(config).run(), experiment(same).run()):
        assert [again[name] for name in FIGURES] == [summary[name] for name in FIGURES]
        assert (again["id"], again["stream_hash"]) == (summary["id"], summary["stream_hash"])


def test_the_learner_is_kept_with_the_datas_own_labels_and_an_experiment_is_run_once(finished):
    folder, _, run, _ = finished
    kept, images = Learner.load(folder, device="cpu"), DIGITS.test.images[:5]
    assert kept.classes == list(range(10))
    np.testing.assert_array_equal(kept.predict_proba(images), run.learner.predict_proba(images))
    with pytest.raises(ValueError, match="make a new Experiment"):
        run.run()


# What is measured on what ------------------------------------------------------------------------------------------


def test_validation_images_never_arrive_and_are_what_accuracy_is_measured_on():
    run = experiment(tiny_config(holdout=50, evaluate_on="validation", stream_limit=16, test_limit=None, epochs=1))
    summary = run.run()
    rows, stream, train = run.manifest.holdout.copy(), run.manifest.order, DIGITS.train
    assert len(rows) == 50
    assert not set(rows.tolist()) & set(stream.tolist())
    right = run.learner.predict(train.images[rows]) == train.labels[rows].numpy()
    assert summary["last_accuracy"] == pytest.approx(right.mean())
    assert summary["evaluated_on"] == "validation"


def test_the_noise_is_told_on_demand_only():
    assert experiment(tiny_config()).learner.hint is None
    told = experiment(tiny_config(tell_noise=True)).learner.hint
    assert told is not None
    assert (told.kind, told.rate) == ("sym", pytest.approx(0.4, abs=1e-3))


def test_diversity_is_measured_with_features_that_are_trained_once(tmp_path, monkeypatch):
    monkeypatch.setattr("puridiver.metrics.joint.EPOCHS", 1)
    config = tiny_config(data_root=str(tmp_path), diversity=True, epochs=1)
    first = experiment(config).run()
    monkeypatch.setattr("puridiver.metrics.joint.TrainableModel", lambda *a: pytest.fail("trained a second time"))
    assert experiment(config).run()["memory_diversity"] == first["memory_diversity"] > 0


def test_a_run_without_memory_epochs_learns_from_its_stream_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("puridiver.trainers.base.Trainer.consolidate", lambda *a: pytest.fail("trained on the memory"))
    run = experiment(tiny_config(epochs=0))
    summary = run.run(tmp_path)
    run.learner.consolidate(epochs=0)
    assert (summary["epochs"], summary["options"]["epochs"], run.learner.seen) == (0, 0, 88)

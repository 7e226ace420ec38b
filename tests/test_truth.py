"""True labels reach the metrics and nothing else: changing them changes no bit of any learner."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

from puridiver.data import DataSource, ImageSet, from_arrays
from puridiver.data.base import UNKNOWN
from puridiver.memory import SAMPLERS
from puridiver.options import owners
from puridiver.runs.config import RunConfig
from puridiver.runs.experiment import Experiment
from puridiver.streams import Stream, StreamManifest, TrueLabels, make_stream
from puridiver.trainers import TRAINERS
from tests.learner_samples import PLAIN_VIEWS, TINY, differing, patterns, tensors_of

SOURCE = from_arrays(*patterns(90, seed=1), *patterns(30, seed=2), name="patterns")
MANIFEST = make_stream(SOURCE, n_tasks=3, noise="sym-40", seed=0, holdout=9)


def with_other_truth(source: DataSource) -> DataSource:
    """The same images, every true label (train and test) another one."""
    train, test = (ImageSet(part.images, (part.labels + 1) % 3) for part in (source.train, source.test))
    return dataclasses.replace(source, train=train, test=test)


def run(source: DataSource, folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any):
    """A whole run on MANIFEST's stream, whatever the source's true labels are."""
    manifest = dataclasses.replace(MANIFEST, source_fingerprint=source.fingerprint)
    folder.mkdir()
    manifest.save(folder / "stream.json")
    monkeypatch.setattr("puridiver.data.load", lambda name, root=None, *rest: source)
    config = RunConfig(
        data="patterns", data_root=str(folder), stream=str(folder / "stream.json"), memory=12, sampler="puridiver",
        trainer="puridiver", network="small", device="cpu", diversity=False, anytime_points=2, evaluate_epochs=True,
        options=TINY,
    )  # fmt: skip
    config = dataclasses.replace(config, **changes)
    methods = {f"sampler {config.sampler}", f"trainer {config.trainer}", "network small"}
    reached = {name: value for name, value in config.options.items() if not owners(name) or methods & set(owners(name))}
    experiment = Experiment(dataclasses.replace(config, options=reached))
    return experiment.run(folder / "run"), tensors_of(experiment.learner)


PAIRS = list(zip(itertools.cycle(sorted(SAMPLERS)), sorted(TRAINERS), strict=False))  # each of both at least once


@pytest.mark.parametrize(("sampler", "trainer"), PAIRS)
def test_other_true_labels_change_the_metrics_and_no_bit_of_the_learner(sampler, trainer, tmp_path, monkeypatch):
    changes = {"sampler": sampler, "trainer": trainer, "stream_limit": 16, "anytime_points": 1, "test_limit": 12}
    summary, state = run(SOURCE, tmp_path / "a", monkeypatch, **changes)
    other_summary, other_state = run(with_other_truth(SOURCE), tmp_path / "b", monkeypatch, **changes)
    assert differing(state, other_state) == []
    assert summary["task_purity"] != other_summary["task_purity"]


def test_nor_by_way_of_a_setting(tmp_path, monkeypatch):
    changes = {
        "diversity": True,
        "evaluate_on": "validation",
        "tell_noise": True,
        "trainer": "coteaching",  # which listens to what it is told
        "options": {**TINY, **PLAIN_VIEWS, "epochs": 4, "online_steps": 1},
    }
    summary, state = run(SOURCE, tmp_path / "a", monkeypatch, **changes)
    other_summary, other_state = run(with_other_truth(SOURCE), tmp_path / "b", monkeypatch, **changes)
    assert differing(state, other_state) == []
    assert summary["task_purity"] != other_summary["task_purity"]
    assert summary["last_accuracy"] != other_summary["last_accuracy"]


def test_validation_accuracy_is_by_the_true_labels_where_they_are_known(tmp_path, monkeypatch):
    """Of a source whose own labels are partly wrong."""
    wrong = dataclasses.replace(SOURCE.train, labels=(SOURCE.train.labels + 1) % 3, true=SOURCE.train.labels)
    half = wrong.true.clone()
    half[::2] = UNKNOWN
    for true, expected in ((wrong.true, SOURCE.train.labels), (half, torch.where(half == UNKNOWN, wrong.labels, half))):
        source = dataclasses.replace(SOURCE, train=dataclasses.replace(wrong, true=true))
        monkeypatch.setattr("puridiver.data.load", lambda name, root=None, *rest, source=source: source)
        config = RunConfig(data="patterns", tasks=3, memory=12, network="small", holdout=9, evaluate_on="validation")
        experiment = Experiment(config)
        found = experiment._evaluation_set()
        rows = torch.from_numpy(experiment.manifest.holdout.copy())
        assert found.labels.tolist() == expected[rows].tolist()
        assert found.verified.tolist() == (true != UNKNOWN)[rows].tolist()


def test_what_is_measured_changes_no_bit_of_the_learner(tmp_path, monkeypatch):
    """Evaluating more often must not train, nor draw random numbers."""
    _, often = run(SOURCE, tmp_path / "a", monkeypatch, anytime_points=5)
    _, seldom = run(SOURCE, tmp_path / "b", monkeypatch, anytime_points=0, evaluate_epochs=False)
    assert differing(often, seldom) == []


def test_a_stream_holds_no_true_labels():
    other = with_other_truth(SOURCE)
    manifests = [dataclasses.replace(MANIFEST, source_fingerprint=source.fingerprint) for source in (SOURCE, other)]
    one, two = (Stream(*pair).read(0, len(MANIFEST)) for pair in zip((SOURCE, other), manifests, strict=True))
    assert torch.equal(one.labels, two.labels)
    assert torch.equal(one.images, two.images)
    positions = torch.arange(len(MANIFEST))
    truths = [TrueLabels.of(*pair).true[positions] for pair in zip((SOURCE, other), manifests, strict=True)]
    assert (truths[0] != truths[1]).all()
    assert not [field.name for field in dataclasses.fields(StreamManifest) if "tru" in field.name]

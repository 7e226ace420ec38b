"""Features of the jointly trained network: good, repeatable, trained once."""

from __future__ import annotations

import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import puridiver
from puridiver.data import DataSource, from_arrays
from puridiver.metrics.joint import joint_features
from puridiver.runtime.device import choose_runtime
from tests.learner_samples import patterns

OPTIONS = puridiver.Options(crop_padding=1, flip=False)


@pytest.fixture(autouse=True)
def few_epochs(monkeypatch):
    monkeypatch.setattr("puridiver.metrics.joint.EPOCHS", 2)


def small_source(seed: int = 0) -> DataSource:
    return from_arrays(*patterns(61, seed=seed), *patterns(20, seed=seed + 1))


def features(source: DataSource, cache, options: puridiver.Options = OPTIONS) -> tuple[torch.Tensor, int]:
    """The features, and how many epochs were trained for them."""
    epochs: list[str] = []
    found = joint_features(source, "small", choose_runtime("cpu"), cache, options, epochs.append)
    return found, len(epochs)


@pytest.mark.parametrize(
    ("source", "options"),
    [(small_source(seed=5), OPTIONS), (small_source(), OPTIONS.replace(crop_padding=0))],
    ids=["other data", "other views"],
)
def test_other_settings_do_not_meet_the_same_cache(source, options, tmp_path):
    first, _ = features(small_source(), tmp_path)
    second, trained = features(source, tmp_path, options)
    assert trained > 0
    assert not torch.equal(first, second)


def test_features_are_repeatable_and_tell_the_classes_apart(tmp_path, monkeypatch):
    monkeypatch.setattr("puridiver.metrics.joint.EPOCHS", 20)
    source = small_source()
    found, _ = features(source, tmp_path / "a")
    again, _ = features(source, tmp_path / "b")
    assert torch.equal(found, again)
    labels = source.train.labels
    assert len(found) == len(labels)
    distances, same = torch.cdist(found, found), labels[:, None] == labels
    assert distances[same & ~torch.eye(len(labels), dtype=torch.bool)].mean() < 0.6 * distances[~same].mean()


def test_of_several_that_start_together_one_trains(tmp_path):
    source, start = small_source(), threading.Barrier(3)

    def at_once(_):
        start.wait()
        return features(source, tmp_path)

    with ThreadPoolExecutor(3) as pool:
        found, trained = zip(*pool.map(at_once, range(3)), strict=True)
    assert sorted(trained) == [0, 0, 2]
    assert all(torch.equal(found[0], other) for other in found[1:])
    assert len(list(tmp_path.iterdir())) == 1  # no lock stays


def test_the_network_learns_the_true_labels_where_the_given_are_others(tmp_path):
    clean = small_source()
    wrong = dataclasses.replace(clean.train, labels=(clean.train.labels + 1) % 3, true=clean.train.labels)
    by_truth, _ = features(clean, tmp_path / "clean")
    found, _ = features(dataclasses.replace(clean, train=wrong), tmp_path / "wrong")
    assert torch.equal(found, by_truth)


def test_every_true_label_is_needed(tmp_path):
    source = small_source()
    unknown = dataclasses.replace(source.train, true=torch.full_like(source.train.labels, -1))
    with pytest.raises(ValueError, match="diversity is measured by true labels"):
        features(dataclasses.replace(source, train=unknown), tmp_path)

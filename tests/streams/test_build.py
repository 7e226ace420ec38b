"""Streams made by seed: what each option does, what decides what, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from puridiver.data import UNKNOWN
from puridiver.streams import make_stream, resolve_stream
from puridiver.streams.build import draw_holdout

from .samples import small_source

SOURCE = small_source()
TRUE = SOURCE.train.labels.numpy()


def given_by_sample(manifest):
    return dict(zip(manifest.order.tolist(), manifest.labels.tolist(), strict=True))


def test_defaults_are_the_papers_blurry_10_with_40_percent_symmetric_noise():
    manifest = make_stream(SOURCE)
    assert (manifest.kind, manifest.n_tasks, manifest.minor_share) == ("blurry", 5, 0.1)
    assert (manifest.noise, manifest.noise_rate, manifest.noise_map) == ("sym", 0.4, None)
    assert manifest.realised_noise == np.mean(manifest.labels != TRUE[manifest.order]) == 0.4
    assert sorted(manifest.order.tolist()) == list(range(300))
    assert manifest.source_fingerprint == SOURCE.fingerprint


def test_tasks_are_cut_by_the_noisy_labels():
    manifest = make_stream(SOURCE, noise="sym-50")
    for task, major in enumerate(manifest.major_classes):
        part = manifest.labels[manifest.task_slice(task)]
        assert abs((~np.isin(part, major)).sum() - 0.1 * len(part)) <= 1.5


def test_disjoint_streams_and_single_tasks_have_no_minor_samples():
    manifest = make_stream(SOURCE, kind="disjoint")
    assert manifest.minor_share == 0
    for task, major in enumerate(manifest.major_classes):
        assert set(manifest.labels[manifest.task_slice(task)]) == set(major)
    assert make_stream(SOURCE, n_tasks=1).minor_share == 0


def test_noise_is_not_planted_where_nobody_could_measure_it():
    unknown = torch.full((300,), UNKNOWN)
    source = replace(SOURCE, train=replace(SOURCE.train, true=unknown))
    with pytest.raises(ValueError, match=r"cannot be planted in 'small'.*--trust-labels"):
        make_stream(source)
    assert make_stream(source, noise="none").realised_noise is None


@pytest.mark.parametrize("kind", ["blurry", "disjoint"])
def test_classes_without_samples_leave_no_task_empty(kind):
    counts = (0, 20, 0, 20, 0, 0, 20)
    source, there = small_source(counts=counts), np.flatnonzero(counts).tolist()
    for seed in range(5):
        manifest = make_stream(source, n_tasks=len(there), noise="none", kind=kind, seed=seed)
        assert sorted(manifest.order.tolist()) == list(range(sum(counts)))
        assert min(np.diff([0, *manifest.task_ends])) > 0


def test_the_seed_alone_decides_which_labels_are_wrong():
    first = make_stream(SOURCE, seed=3)
    assert first == make_stream(SOURCE, seed=3)
    assert given_by_sample(first) == given_by_sample(make_stream(SOURCE, seed=3, n_tasks=2, minor_share=0.3))
    assert given_by_sample(first) != given_by_sample(make_stream(SOURCE, seed=4))


def test_the_holdout_is_balanced_and_out_of_the_stream_and_of_the_noise():
    manifest = make_stream(SOURCE, holdout=53, noise="sym-40", seed=2)
    assert sorted(np.bincount(TRUE[manifest.holdout]).tolist()) == [5] * 7 + [6] * 3
    assert sorted([*manifest.order, *manifest.holdout]) == list(range(300))
    assert (manifest.labels != TRUE[manifest.order]).sum() == round(0.4 * 247)
    with pytest.raises(ValueError, match="3 or fewer of class 0, but got 10 with 5 of it"):
        draw_holdout(np.repeat([0, 1], [3, 50]), 2, 10, np.random.default_rng(0))


def test_a_long_tailed_stream_has_exponential_class_counts_by_seed():
    manifest = make_stream(SOURCE, imbalance=0.1, noise="none")
    counts = sorted(np.bincount(TRUE[manifest.order]).tolist(), reverse=True)
    assert counts == [round(30 * 0.1 ** (rank / 9)) for rank in range(10)]
    assert manifest.imbalance == 0.1
    other = make_stream(SOURCE, imbalance=0.1, noise="none", seed=1)
    assert np.bincount(TRUE[manifest.order]).tolist() != np.bincount(TRUE[other.order]).tolist()
    assert make_stream(SOURCE, imbalance=1.0).order.tolist() == make_stream(SOURCE).order.tolist()


def test_the_asymmetric_map_is_the_callers_else_the_sources_else_the_next_class():
    with_map = small_source(asymmetric_map={0: 5, 5: 0})
    assert make_stream(with_map, noise="asym-20", noise_map={1: 2}).noise_map == {1: 2}
    assert make_stream(with_map, noise="asym-20").noise_map == {0: 5, 5: 0}
    assert make_stream(SOURCE, noise="asym-20").noise_map[9] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "official"}, "kind should be one of"),
        ({"noise": "custom"}, "noise should be"),
        ({"noise_map": {0: 1}}, "noise_map should be left out"),
        ({"seed": -1}, "non-negative"),
        ({"imbalance": 0.0}, "above 0 and at most 1"),
        ({"n_tasks": 11}, "from 1 to that of classes with samples, 10"),
        ({"holdout": 300}, "below the 300 train images"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make_stream(SOURCE, **options)
    with pytest.raises(ValueError, match="0 train images"):
        make_stream(small_source(counts=(0,) * 10))


# Streams by a short text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        ("blurry-10", {"kind": "blurry", "minor_share": 0.1}),
        ("blurry-0.25", {"kind": "blurry", "minor_share": 0.25}),
        ("disjoint", {"kind": "disjoint"}),
    ],
)
def test_streams_made_by_a_spec(spec, options, tmp_path):
    made = make_stream(SOURCE, **{"noise": "sym-20", **options}, n_tasks=2)
    assert resolve_stream(spec, SOURCE, noise="sym-20", n_tasks=2) == made
    made.save(tmp_path / "stream.json")
    assert resolve_stream(str(tmp_path / "stream.json"), SOURCE, seed=1) == made


def test_an_i_blurry_stream_says_its_shares_and_reads_them_back(tmp_path):
    manifest = resolve_stream("i-blurry-40-20", SOURCE, noise="sym-20", n_tasks=2, seed=3)
    assert (manifest.kind, manifest.disjoint_share, manifest.minor_share) == ("i-blurry", 0.4, 0.2)
    assert (manifest.noise, manifest.noise_rate) == ("sym", 0.2)
    manifest.save(tmp_path / "stream.json")
    assert type(manifest).load(tmp_path / "stream.json") == manifest
    assert manifest == make_stream(
        SOURCE, kind="i-blurry", disjoint_share=0.4, minor_share=0.2, noise="sym-20", n_tasks=2, seed=3
    )
    with pytest.raises(ValueError, match="share of disjoint classes of 'i-blurry-400-20' should be a percentage"):
        resolve_stream("i-blurry-400-20", SOURCE)

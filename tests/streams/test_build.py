from dataclasses import replace

import numpy as np
import pytest
import torch

from puridiver.data import UNKNOWN
from puridiver.streams import make_stream
from puridiver.streams.build import draw_holdout
from puridiver.streams.verify import verify

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


def test_tasks_are_cut_by_the_given_labels():
    manifest = make_stream(SOURCE, noise="sym-50")
    for task, major in enumerate(manifest.major_classes):
        labels = manifest.labels[manifest.task_slice(task)]
        assert abs((~np.isin(labels, major)).sum() - 0.1 * len(labels)) <= 1


def test_tasks_can_be_cut_by_the_true_labels():
    manifest = make_stream(SOURCE, noise="sym-50", cut_by="true")
    for task, major in enumerate(manifest.major_classes):
        true = TRUE[manifest.order[manifest.task_slice(task)]]
        assert abs((~np.isin(true, major)).sum() - 0.1 * len(true)) <= 1


def test_disjoint_streams_have_no_minor_samples():
    manifest = make_stream(SOURCE, kind="disjoint")
    assert manifest.minor_share == 0
    for task, major in enumerate(manifest.major_classes):
        assert set(manifest.labels[manifest.task_slice(task)]) == set(major)


def test_a_single_task_has_no_minor_samples():
    manifest = make_stream(SOURCE, n_tasks=1)
    assert (manifest.kind, manifest.minor_share, manifest.task_ends) == ("blurry", 0, (300,))
    assert sorted(manifest.major_classes[0]) == list(range(10))


def test_noise_is_not_planted_where_nobody_could_measure_it():
    unknown = torch.full((300,), UNKNOWN)
    source = replace(SOURCE, train=replace(SOURCE.train, true=unknown))
    with pytest.raises(ValueError, match=r"noise sym-40 cannot be planted in 'small'.*--trust-labels"):
        make_stream(source)
    assert make_stream(source, noise="none").realised_noise is None
    unknown[:10] = SOURCE.train.labels[:10]
    assert make_stream(source, noise="sym-40").realised_noise is not None


def test_a_class_without_samples_is_named_where_it_stops_the_cut():
    source = small_source(counts=(30, 0))
    told = r"from 1 to that of classes with samples, 1, but got 2: no sample of the stream is labelled class-1$"
    for kind in ("blurry", "disjoint"):
        with pytest.raises(ValueError, match=told):
            make_stream(source, n_tasks=2, noise="none", kind=kind)
    many = small_source(counts=(30, *[0] * 999))
    with pytest.raises(ValueError, match=r"is labelled class-1, class-2, .*class-10 and 989 more$") as caught:
        make_stream(many, n_tasks=5, noise="none")
    assert len(str(caught.value)) < 300
    assert len(make_stream(source, n_tasks=1, noise="none", kind="disjoint")) == 30


@pytest.mark.parametrize(
    ("kind", "n_tasks", "message"),
    [
        ("time", 31, "the number of tasks should be from 1 to that of samples, 30, but got 31"),
        ("disjoint", 3, "the number of tasks should be from 1 to that of classes, 2, but got 3"),
    ],
)
def test_a_class_without_samples_is_not_named_where_it_stops_nothing(kind, n_tasks, message):
    source = small_source(counts=(30, 0))
    source = replace(source, train=replace(source.train, times=torch.arange(30.0, dtype=torch.float64)))
    with pytest.raises(ValueError, match=f"^{message}$"):
        make_stream(source, n_tasks=n_tasks, noise="none", kind=kind)


@pytest.mark.parametrize("kind", ["blurry", "disjoint"])
@pytest.mark.parametrize("counts", [(30, 0, 30), (0, 20, 0, 20, 0, 0, 20)])
def test_classes_without_samples_leave_no_task_empty(counts, kind):
    source, there = small_source(counts=counts), np.flatnonzero(counts).tolist()
    for seed in range(10):
        manifest = make_stream(source, n_tasks=len(there), noise="none", kind=kind, seed=seed)
        assert sorted(manifest.order.tolist()) == list(range(sum(counts)))
        assert min(np.diff([0, *manifest.task_ends])) > 0
        major = [label for group in manifest.major_classes for label in group]
        assert set(there) <= set(major)
        for task, group in enumerate(manifest.major_classes):
            labels = manifest.labels[manifest.task_slice(task)]
            assert abs((~np.isin(labels, group)).sum() - manifest.minor_share * len(labels)) <= 1
        assert verify(manifest, source) == []


def test_streams_that_could_be_cut_beside_a_class_without_samples_stay_what_they_are():
    """Manifests that people have are compared with what their seed makes."""
    manifest = make_stream(small_source(counts=(6, 0, 6, 6)), n_tasks=2, noise="none", kind="disjoint", seed=1)
    assert manifest.major_classes == ((1, 0), (2, 3))


def test_the_same_seed_puts_the_same_labels_wrong_whatever_the_tasks_are():
    first = make_stream(SOURCE, seed=3)
    other_tasks = make_stream(SOURCE, seed=3, n_tasks=2, minor_share=0.3)
    assert given_by_sample(first) == given_by_sample(other_tasks)
    assert given_by_sample(first) != given_by_sample(make_stream(SOURCE, seed=4))


def test_the_same_options_give_the_same_stream_and_another_seed_another():
    assert make_stream(SOURCE, seed=1) == make_stream(SOURCE, seed=1)
    assert make_stream(SOURCE, seed=1) != make_stream(SOURCE, seed=2)


def test_the_holdout_is_balanced_and_out_of_the_stream_and_of_the_noise():
    manifest = make_stream(SOURCE, holdout=53, noise="sym-40", seed=2)
    assert len(manifest.holdout) == 53
    assert sorted(np.bincount(TRUE[manifest.holdout]).tolist()) == [5] * 7 + [6] * 3
    assert sorted([*manifest.order, *manifest.holdout]) == list(range(300))
    assert (manifest.labels != TRUE[manifest.order]).sum() == round(0.4 * 247)


def test_the_asymmetric_map_is_the_callers_else_the_sources_else_the_next_class():
    with_map = small_source(asymmetric_map={0: 5, 5: 0})
    assert make_stream(with_map, noise="asym-20", noise_map={1: 2}).noise_map == {1: 2}
    assert make_stream(with_map, noise="asym-20").noise_map == {0: 5, 5: 0}
    assert make_stream(SOURCE, noise="asym-20").noise_map[9] == 0
    manifest = make_stream(with_map, noise="asym-40")
    wrong = manifest.labels != TRUE[manifest.order]
    assert wrong.sum() == round(0.4 * 60)  # of the classes in the map only
    assert set(TRUE[manifest.order][wrong]) == {0, 5}


def test_clean_streams_keep_every_label():
    manifest = make_stream(SOURCE, noise="none")
    assert (manifest.labels == TRUE[manifest.order]).all()
    assert manifest.realised_noise == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "fuzzy"}, "kind should be one of blurry, disjoint, time, but got 'fuzzy'"),
        ({"kind": "official"}, "kind should be one of"),
        ({"cut_by": "taste"}, "cut_by should be one of given, true"),
        ({"noise": "pink-40"}, "noise should be"),
        ({"noise": ("pink", 0.4)}, "noise should be one of none, sym, asym"),
        ({"noise": ("none", 0.4)}, "noise_rate should be 0"),
        ({"noise": ("sym", 1.2)}, "below 1, but got 1.2"),
        ({"noise_map": {0: 1}}, "a noise map should go with asymmetric noise"),
        ({"noise": "asym-20", "noise_map": {0: 10}}, "0 to 9, but got 0 -> 10"),
        ({"seed": -1}, "seed should be at least 0"),
        ({"n_tasks": 11}, "from 1 to that of classes, 10"),
        ({"minor_share": 1.0}, "minor share should be"),
        ({"holdout": -1}, "holdout should be from 0"),
        ({"holdout": 300}, "below the 300 samples"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make_stream(SOURCE, **options)


def test_a_source_without_train_images_is_refused():
    with pytest.raises(ValueError, match="'small' has none"):
        make_stream(small_source(counts=(0,) * 10))


def test_a_class_too_small_for_the_holdout_is_named():
    labels = np.repeat([0, 1], [3, 50])
    with pytest.raises(ValueError, match="takes 5 samples of class 0, but it has only 3"):
        draw_holdout(labels, 2, 10, np.random.default_rng(0))

"""Tasks against the definitions of section 3, for any counts of classes."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from puridiver.streams import make_stream
from puridiver.streams.tasks import blurry_tasks, group_classes, i_blurry_tasks, plan_flows, time_tasks

from .samples import small_source


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(20, 60), min_size=6, max_size=25),
    n_tasks=st.integers(2, 6),
    share=st.floats(0, 0.3),
    seed=st.integers(0, 999),
)
def test_blurry_tasks_follow_section_3_for_any_counts(counts, n_tasks, share, seed):
    """Each class is major once, the minor share is exact to rounding, every sample arrives once."""
    labels = np.random.default_rng(99).permutation(np.repeat(np.arange(len(counts)), counts))
    tasks = blurry_tasks(labels, len(counts), n_tasks, np.random.default_rng(seed), share)
    assert sorted(c for group in tasks.major_classes for c in group) == list(range(len(counts)))
    assert len(tasks.indices) == len(tasks.major_classes) == n_tasks
    assert sorted(np.concatenate(tasks.indices).tolist()) == list(range(len(labels)))
    for indices, major in zip(tasks.indices, tasks.major_classes, strict=True):
        n_minor = (~np.isin(labels[indices], major)).sum()
        assert abs(n_minor - share * len(indices)) <= 1 + share * n_tasks


@settings(max_examples=20, deadline=None)
@given(counts=st.lists(st.integers(400, 600), min_size=6, max_size=12), seed=st.integers(0, 999))
def test_minor_samples_of_a_class_are_spread_evenly_over_the_other_tasks(counts, seed):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    tasks = blurry_tasks(labels, len(counts), 4, rng, 0.1)
    table = np.stack([np.bincount(labels[i], minlength=len(counts)) for i in tasks.indices])  # (tasks, classes)
    for home, major in enumerate(tasks.major_classes):
        away = np.delete(table, home, axis=0)[:, list(major)]
        flow = away.sum(1, keepdims=True)  # all that leaves home, by task
        expected = flow * away.sum(0) / flow.sum()
        assert (np.abs(away - expected) <= 1 + 3 * flow / flow.sum() + 1e-9).all()
        assert (away > 0).all()  # Eq. 1: major and minor classes of each task are all classes


@pytest.mark.parametrize(
    ("labels", "share", "message"),
    [(np.repeat([0, 1], [1000, 10]), 0.2, "too unequal"), (np.arange(20) % 2, 1.0, "at least 0 and below 1")],
)
def test_impossible_blurry_tasks_are_refused(labels, share, message):
    with pytest.raises(ValueError, match=message):
        blurry_tasks(labels, 2, 2, np.random.default_rng(0), share)


@settings(max_examples=20, deadline=None)
@given(
    counts=st.lists(st.integers(20, 60), min_size=10, max_size=20),
    disjoint=st.sampled_from([0.0, 0.3, 0.5, 0.7, 0.99]),
    share=st.floats(0.1, 0.3),
    seed=st.integers(0, 999),
)
def test_i_blurry_tasks_have_disjoint_classes_and_blurry_ones(counts, disjoint, share, seed):
    """N of the classes arrive in one task each; of the blurry samples of a task the share M is minor."""
    labels = np.random.default_rng(99).permutation(np.repeat(np.arange(len(counts)), counts))
    tasks = i_blurry_tasks(labels, len(counts), 3, np.random.default_rng(seed), share, None, disjoint)
    assert sorted(np.concatenate(tasks.indices).tolist()) == list(range(len(labels)))
    assert sorted(c for group in tasks.major_classes for c in group) == list(range(len(counts)))
    table = np.stack([np.bincount(labels[i], minlength=len(counts)) for i in tasks.indices])  # (tasks, classes)
    in_one_task = (table > 0).sum(axis=0) == 1
    assert in_one_task.sum() == round(disjoint * len(counts))
    blurry = np.setdiff1d(np.arange(len(counts)), np.flatnonzero(in_one_task))
    for row, major in zip(table, tasks.major_classes, strict=True):
        minor = row[np.setdiff1d(blurry, major)].sum()
        assert abs(minor - share * row[blurry].sum()) <= 1 + 3 * share


@pytest.mark.parametrize("sizes", [(1000, 900), (2000, 1000, 1000), (6000, 3000, 2000), (1000, 50, 500), (3, 4, 5, 3)])
def test_unequal_tasks_exchange_samples_and_none_vanishes(sizes):
    flows = plan_flows(np.array(sizes), 0.1)
    kept, received = sizes - flows.sum(1), flows.sum(0)
    assert (flows >= 0).all()
    assert (np.diag(flows) == 0).all()
    assert (np.abs(received - 0.1 * (kept + received)) <= 1.5).all()
    assert (kept > 0.4 * np.array(sizes)).all()


def test_equal_tasks_exchange_equally_and_keep_their_size():
    assert plan_flows(np.full(5, 10_000), 0.1).tolist() == (250 * (1 - np.eye(5))).astype(int).tolist()


@pytest.mark.parametrize(
    ("n_classes", "sizes"), [(101, [20, 20, 20, 20, 21]), (8, [1, 1, 2, 2, 2]), (10, [2] * 5), (3, [3])]
)
def test_classes_left_over_go_to_the_last_tasks_one_each(n_classes, sizes):
    groups = group_classes(range(n_classes), len(sizes))
    assert [len(group) for group in groups] == sizes
    assert [c for group in groups for c in group] == list(range(n_classes))
    assert len(group_classes(range(n_classes), len(sizes), rest_to_last=True)[0]) == n_classes // len(sizes)
    with pytest.raises(ValueError, match="that of classes"):
        group_classes(range(n_classes), n_classes + 1)


def test_tasks_in_the_order_of_time_are_equal_parts_of_it():
    source = small_source((40, 20, 30))
    times = torch.from_numpy(np.random.default_rng(5).permutation(90).astype(np.float64))
    source = dataclasses.replace(source, train=dataclasses.replace(source.train, times=times))
    manifest = make_stream(source, kind="time", n_tasks=4, noise="none", seed=3)
    assert (np.diff(times.numpy()[manifest.order]) > 0).all()
    assert np.diff([0, *manifest.task_ends]).tolist() == [23, 23, 22, 22]
    with pytest.raises(ValueError, match="needs timestamps"):
        make_stream(small_source(), kind="time")


def test_a_class_is_major_where_most_of_it_arrives():
    labels = np.array([0, 0, 1, 1, 0, 2, 2, 2, 1, 1])
    tasks = time_tasks(labels, 4, 2, None, 0.0, np.arange(10.0))
    assert tasks.major_classes == [(0, 1), (2,)]  # two of class 1 in each: the earlier; class 3 never comes

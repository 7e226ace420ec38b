"""Streams in the order of time."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from puridiver.streams import make_stream, resolve_stream, verify
from puridiver.streams.time import time_tasks

from .samples import small_source


def timed_source():
    source = small_source((40, 20, 30))
    times = torch.from_numpy(np.random.default_rng(5).permutation(90).astype(np.float64))
    return dataclasses.replace(source, train=dataclasses.replace(source.train, times=times))


def test_arrivals_follow_the_clock_and_tasks_are_equal_parts():
    source = timed_source()
    manifest = make_stream(source, kind="time", n_tasks=4, noise="none", seed=3)
    times = source.train.times.numpy()[manifest.order]
    assert (np.diff(times) > 0).all()
    assert np.diff([0, *manifest.task_ends]).tolist() == [23, 23, 22, 22]
    assert manifest.minor_share == 0
    assert verify(manifest, source) == []
    assert resolve_stream("time", source, n_tasks=4, noise="none", seed=3) == manifest


def test_another_clock_is_other_data():
    source = timed_source()
    other = dataclasses.replace(source.train, times=source.train.times + 1)
    assert dataclasses.replace(source, train=other).fingerprint != source.fingerprint


def test_a_class_is_major_where_most_of_it_arrives():
    labels = np.array([0, 0, 1, 1, 0, 2, 2, 2, 1, 1])
    tasks = time_tasks(labels, 4, 2, np.arange(10.0))
    assert tasks.major_classes == [(0, 1), (2,)]  # two of class 1 in each: the earlier; class 3 never comes
    assert time_tasks(labels, 4, 2, -np.arange(10.0)).indices[0].tolist() == [9, 8, 7, 6, 5]


def test_equal_times_keep_their_order():
    assert time_tasks(np.zeros(5, dtype=int), 1, 1, np.zeros(5)).order.tolist() == [0, 1, 2, 3, 4]


def test_without_timestamps_there_is_no_such_stream():
    with pytest.raises(ValueError, match="needs timestamps, but the data have none"):
        make_stream(small_source(), kind="time")
    with pytest.raises(ValueError, match="from 1 to that of samples, 90, but got 91"):
        make_stream(timed_source(), kind="time", n_tasks=91)

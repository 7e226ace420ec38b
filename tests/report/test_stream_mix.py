"""Which labels come when: worked out by hand on small streams."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from puridiver.report.stream_mix import by_first_task, mix_over_time, mix_picture, shortened
from puridiver.streams import make_stream
from tests.streams.samples import small_source

MANIFEST = make_stream(small_source(), n_tasks=5, noise="sym-40", seed=1)


def test_shares_are_of_each_part_of_the_stream() -> None:
    shares = mix_over_time(MANIFEST, windows=6)  # of 50 samples each
    assert shares.shape == (10, 6)
    assert shares.sum(axis=0) == pytest.approx(1)
    first, last = MANIFEST.labels[:50].tolist(), MANIFEST.labels[250:].tolist()
    assert shares[:, 0] == pytest.approx([first.count(label) / 50 for label in range(10)])
    assert shares[:, -1] == pytest.approx([last.count(label) / len(last) for label in range(10)])


def test_a_stream_shorter_than_the_picture_has_a_part_for_each_sample() -> None:
    shares = mix_over_time(MANIFEST, windows=10_000)
    assert shares.shape[1] == len(MANIFEST)
    assert (shares.argmax(axis=0) == MANIFEST.labels).all()


def test_classes_stand_in_the_order_of_their_tasks_and_none_is_lost() -> None:
    order = by_first_task(MANIFEST)
    assert order[:2] == list(MANIFEST.major_classes[0])
    assert sorted(order) == list(range(10))
    without = dataclasses.replace(MANIFEST, major_classes=((), *MANIFEST.major_classes[1:]))
    assert sorted(by_first_task(without)) == list(range(10))
    assert set(by_first_task(without)[-2:]) == set(MANIFEST.major_classes[0])


def test_the_numbers_behind_the_picture_are_the_counts() -> None:
    picture = mix_picture([("one", MANIFEST)])
    counts = {row[1]: [int(n) for n in row[2:]] for row in picture.rows}
    for label, name in enumerate(MANIFEST.class_names):
        assert counts[name] == np.asarray(MANIFEST.counts())[label].tolist()


def test_long_names_keep_their_beginning() -> None:
    assert shortened("aeroplane") == "aeroplane"
    assert shortened("x" * 24) == "x" * 24
    assert shortened("x" * 25) == "x" * 23 + "…"  # also without a space to break at

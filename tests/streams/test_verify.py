import dataclasses

import numpy as np
import pytest

from puridiver import data
from puridiver.streams import make_stream, rebuild, verify

from .samples import small_source

SOURCE = small_source()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kind": "disjoint", "noise": "none"},
        {"noise": "asym-0.333", "noise_map": {1: 2, 2: 1}, "holdout": 31, "cut_by": "true", "seed": 12},
        {"n_tasks": 3, "minor_share": 0.25, "noise": "sym-60"},
    ],
)
def test_a_stream_that_was_made_verifies_and_rebuilds_to_the_same_bits(options):
    manifest = make_stream(SOURCE, **options)
    assert rebuild(manifest, SOURCE) == manifest
    assert verify(manifest, SOURCE) == []


def test_other_data_are_named_once():
    problems = verify(make_stream(SOURCE), small_source(seed=8))
    assert len(problems) == 1
    assert "fingerprint" in problems[0]


def test_other_classes_are_a_problem():
    problems = verify(make_stream(SOURCE), small_source(counts=(30,) * 9))
    assert any("classes should be" in problem for problem in problems)
    assert any("sample 299 is used" in problem for problem in problems)


def test_the_same_data_by_another_name_verify():
    assert verify(make_stream(SOURCE), small_source(name="renamed")) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"seed": 1}, "from seed 1 gives another order"),
        ({"noise_rate": 0.5}, "gives another labels"),
        ({"n_tasks": 11, "task_ends": (300,) * 11, "major_classes": ((),) * 11}, "cannot be made again from seed 0"),
    ],
)
def test_options_that_do_not_make_the_stream_are_problems(changes, problem):
    manifest = dataclasses.replace(make_stream(SOURCE), **changes)
    assert any(problem in line for line in verify(manifest, SOURCE))


def test_swapped_arrivals_are_a_problem():
    manifest = make_stream(SOURCE)
    order, labels = manifest.order.copy(), manifest.labels.copy()
    order[:2], labels[:2] = order[[1, 0]], labels[[1, 0]]
    problems = verify(dataclasses.replace(manifest, order=order, labels=labels), SOURCE)
    assert any("another order" in problem for problem in problems)


def test_published_streams_are_checked_for_noise_but_not_rebuilt():
    official = dataclasses.replace(make_stream(SOURCE), kind="official")
    assert verify(official, SOURCE) == []
    labels = np.roll(official.labels, 1)
    problems = verify(dataclasses.replace(official, labels=labels), SOURCE)
    assert len(problems) == 1
    assert "realised noise should be 0.4" in problems[0]


@pytest.mark.parametrize("rest_to_last", [False, True])
@pytest.mark.parametrize("kind", ["blurry", "disjoint"])
def test_streams_are_good_by_either_rule_for_classes_that_are_left_over(kind, rest_to_last):
    """Older versions gave all of them to the last task."""
    source = data.from_arrays(
        np.zeros((80, 4, 4, 1), np.uint8), np.arange(80) % 8, np.zeros((8, 4, 4, 1), np.uint8), np.arange(8)
    )
    made = make_stream(source, kind=kind, n_tasks=5, seed=3, rest_to_last=rest_to_last)
    assert [len(group) for group in made.major_classes] == ([1, 1, 1, 1, 4] if rest_to_last else [1, 1, 2, 2, 2])
    assert verify(made, source) == []

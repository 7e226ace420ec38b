import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from puridiver.streams.blurry import blurry_tasks, deal, largest_remainder
from puridiver.streams.tasks import random_groups


def assert_blurry(labels, tasks, n_classes, n_tasks, share):
    """Section 3: each class major once, the minor share exact to rounding, every sample once."""
    assert sorted(c for group in tasks.major_classes for c in group) == list(range(n_classes))
    assert len(tasks.indices) == len(tasks.major_classes) == n_tasks
    assert sorted(tasks.order.tolist()) == list(range(len(labels)))
    for indices, major in zip(tasks.indices, tasks.major_classes, strict=True):
        n_minor = (~np.isin(labels[indices], major)).sum()
        assert abs(n_minor - share * len(indices)) <= 1 + 1e-9


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(20, 60), min_size=6, max_size=25),
    n_tasks=st.integers(3, 6),
    share=st.floats(0, 0.5),
    seed=st.integers(0, 999),
)
def test_blurry_tasks_are_exact_for_any_counts(counts, n_tasks, share, seed):
    groups = random_groups(len(counts), n_tasks, np.random.default_rng(seed))
    sizes = [sum(counts[c] for c in group) for group in groups]
    assume(2 * max(sizes) < 0.9 * sum(sizes))  # the last task may outweigh the others: see test_flows
    labels = np.random.default_rng(99).permutation(np.repeat(np.arange(len(counts)), counts))
    tasks = blurry_tasks(labels, len(counts), n_tasks, share, np.random.default_rng(seed))
    assert tasks.major_classes == groups
    assert_blurry(labels, tasks, len(counts), n_tasks, share)


@settings(max_examples=30, deadline=None)
@given(
    counts=st.lists(st.integers(30, 45), min_size=10, max_size=10),
    share=st.floats(0, 0.5),
    seed=st.integers(0, 999),
)
def test_tasks_keep_their_size_and_never_fail_where_classes_are_alike(counts, share, seed):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(10), counts))
    tasks = blurry_tasks(labels, 10, 5, share, rng)
    assert_blurry(labels, tasks, 10, 5, share)
    for indices, major in zip(tasks.indices, tasks.major_classes, strict=True):
        assert len(indices) == np.isin(labels, major).sum()


@settings(max_examples=30, deadline=None)
@given(counts=st.lists(st.integers(400, 600), min_size=6, max_size=12), seed=st.integers(0, 999))
def test_minor_samples_of_a_class_are_spread_evenly_over_the_other_tasks(counts, seed):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    tasks = blurry_tasks(labels, len(counts), 4, 0.1, rng)
    table = np.stack([np.bincount(labels[i], minlength=len(counts)) for i in tasks.indices])  # (tasks, classes)
    for home, major in enumerate(tasks.major_classes):
        away = np.delete(table, home, axis=0)[:, list(major)]
        flow = away.sum(1, keepdims=True)  # all that leaves home, by task
        expected = flow * away.sum(0) / flow.sum()
        assert (np.abs(away - expected) <= 1 + 3 * flow / flow.sum() + 1e-9).all()
        assert (away > 0).all()  # Eq. 1: major and minor classes of each task are all classes
        # The same share of each class stays at home.
        kept_share = table[home, list(major)] / np.array(counts)[list(major)]
        assert np.ptp(kept_share) <= 2 / 400


def test_food_101n_has_21_major_classes_in_its_last_task():
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(101), 20))
    tasks = blurry_tasks(labels, 101, 5, 0.1, np.random.default_rng(1))
    assert [len(group) for group in tasks.major_classes] == [20, 20, 20, 20, 21]
    assert_blurry(labels, tasks, 101, 5, 0.1)


def test_two_tasks_of_unequal_size():
    labels = np.repeat([0, 1], [1000, 700])
    tasks = blurry_tasks(labels, 2, 2, 0.2, np.random.default_rng(0))
    assert_blurry(labels, tasks, 2, 2, 0.2)
    assert all(set(labels[indices]) == {0, 1} for indices in tasks.indices)


def test_two_tasks_that_are_too_unequal_are_refused():
    with pytest.raises(ValueError, match="too unequal"):
        blurry_tasks(np.repeat([0, 1], [1000, 10]), 2, 2, 0.2, np.random.default_rng(0))


def test_no_minor_share_gives_disjoint_tasks():
    labels = np.arange(60) % 6
    tasks = blurry_tasks(labels, 6, 3, 0.0, np.random.default_rng(0))
    for indices, major in zip(tasks.indices, tasks.major_classes, strict=True):
        assert set(labels[indices]) == set(major)


def test_a_single_task_holds_everything_and_takes_no_minor_share():
    labels = np.arange(20) % 4
    assert sorted(blurry_tasks(labels, 4, 1, 0.0, np.random.default_rng(0)).order) == list(range(20))
    with pytest.raises(ValueError, match=r"minor share should be 0, but got 0\.1"):
        blurry_tasks(labels, 4, 1, 0.1, np.random.default_rng(0))


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_minor_shares_outside_0_to_1_are_refused(share):
    with pytest.raises(ValueError, match="minor share should be at least 0 and below 1"):
        blurry_tasks(np.arange(20) % 4, 4, 2, share, np.random.default_rng(0))


def test_arrival_is_shuffled_within_a_task():
    labels = np.repeat(np.arange(4), 500)
    tasks = blurry_tasks(labels, 4, 2, 0.1, np.random.default_rng(0))
    for indices, major in zip(tasks.indices, tasks.major_classes, strict=True):
        first_half = np.isin(labels[indices[:500]], major).mean()
        assert 0.85 < first_half < 0.95  # sorted parts would give 1 here
        assert (np.diff(indices) < 0).mean() > 0.3


def test_the_generator_decides_the_tasks():
    labels = np.arange(200) % 10
    orders = [blurry_tasks(labels, 10, 5, 0.1, np.random.default_rng(s)).order.tolist() for s in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]


@given(
    weights=st.lists(st.integers(0, 1000), min_size=1, max_size=10).map(np.array),
    part=st.floats(0, 1),
)
def test_largest_remainder_keeps_the_total_and_stays_within_one_of_the_share(weights, part):
    total = int(part * weights.sum())
    shares = largest_remainder(weights, total)
    assert shares.sum() == total
    assert (np.abs(shares - weights * total / max(weights.sum(), 1)) < 1).all()
    assert (shares <= weights).all()


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6).map(np.array))
def test_deal_gives_each_its_count_and_every_prefix_nearly_its_share(counts):
    sequence = deal(counts)
    assert np.bincount(sequence, minlength=len(counts)).tolist() == counts.tolist()
    n_used = (counts > 0).sum()
    for length in range(1, len(sequence) + 1):
        share = counts / counts.sum()
        seen = np.bincount(sequence[:length], minlength=len(counts))
        assert (np.abs(seen - length * share) <= 0.5 + n_used * share / 2 + 1e-9).all()

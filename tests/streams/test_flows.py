import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from puridiver.streams.flows import plan_flows, spread_flows


def assert_exact(sizes: np.ndarray, flows: np.ndarray, share: float) -> None:
    kept, received = sizes - flows.sum(1), flows.sum(0)
    assert (flows >= 0).all()
    assert (kept >= 0).all()
    assert (np.diag(flows) == 0).all()
    assert (np.abs(received - share * (kept + received)) <= 1 + 1e-9).all()


@settings(max_examples=80, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 3000), min_size=2, max_size=8).map(np.array),
    share=st.floats(0, 0.6),
)
def test_planned_flows_are_exact_and_fail_only_when_one_task_outweighs_the_others(sizes, share):
    moved = np.rint(share * sizes)
    one_outweighs = 2 * moved.max() > moved.sum()
    try:
        flows = plan_flows(sizes, np.ones_like(sizes), share)
    except ValueError:
        assert one_outweighs
    else:
        assert_exact(sizes, flows, share)


@settings(max_examples=50, deadline=None)
@given(
    rows=st.lists(st.integers(0, 500), min_size=2, max_size=7).map(np.array),
    seed=st.integers(0, 99),
)
def test_spread_flows_have_exactly_the_sums_asked_for(rows, seed):
    columns = np.random.default_rng(seed).permutation(rows)
    assume(((rows + columns) <= rows.sum()).all())  # else no flows without a diagonal exist
    flows = spread_flows(rows, columns)
    assert flows.sum(1).tolist() == rows.tolist()
    assert flows.sum(0).tolist() == columns.tolist()
    assert np.trace(flows) == 0


def test_equal_tasks_exchange_equally_and_keep_their_size():
    flows = plan_flows(np.full(5, 10_000), np.full(5, 2), 0.1)
    assert flows.tolist() == (250 * (1 - np.eye(5))).astype(int).tolist()


def test_flows_are_each_near_their_proportional_fit():
    sizes = np.array([10_050, 9_907, 9_999, 10_034, 10_010])
    flows = plan_flows(sizes, np.ones_like(sizes), 0.1)
    assert flows.sum(1).tolist() == flows.sum(0).tolist() == np.rint(0.1 * sizes).tolist()
    assert np.abs(flows[~np.eye(5, dtype=bool)] - 250).max() < 5


def test_two_unequal_tasks_change_size_to_keep_the_share():
    sizes = np.array([1000, 900])
    flows = plan_flows(sizes, np.ones_like(sizes), 0.1)
    assert_exact(sizes, flows, 0.1)
    # a_1 + rho a_2 = 1000, a_2 + rho a_1 = 900 with rho = 1/9 has one solution.
    kept = np.linalg.solve([[1, 1 / 9], [1 / 9, 1]], sizes)
    assert np.abs(sizes - flows.sum(1) - kept).max() < 1


@pytest.mark.parametrize("sizes", [(2000, 1000, 1000), (6000, 3000, 2000), (1000, 50, 500)])
def test_tasks_beside_a_very_large_one_still_exchange_samples_and_none_vanishes(sizes):
    flows = plan_flows(np.array(sizes), np.ones(3, dtype=int), 0.1)
    assert_exact(np.array(sizes), flows, 0.1)
    kept = sizes - flows.sum(1)
    assert (kept > 0.5 * 0.9 * np.array(sizes)).all()
    if min(sizes) >= 1000:
        assert (flows[~np.eye(3, dtype=bool)] > 0).all()


def test_sizes_that_are_too_unequal_are_refused_with_the_sizes():
    with pytest.raises(ValueError, match=r"minor share of 0.1 .* \[5000, 100, 100\], are too unequal"):
        plan_flows(np.array([5000, 100, 100]), np.ones(3, dtype=int), 0.1)

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puridiver.streams.checks import format_share, parse_share
from puridiver.streams.noise import (
    NAMED_MAPS,
    asymmetric,
    check_class_map,
    named_map,
    next_class_map,
    noise_name,
    parse_noise,
    spr_cifar10_map,
    symmetric,
)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(0, 300), n_classes=st.integers(2, 12), rate=st.floats(0, 0.99), seed=st.integers(0, 999))
def test_symmetric_noise_flips_exactly_the_rate_and_never_to_the_true_class(n, n_classes, rate, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_classes, size=n)
    noisy = symmetric(labels, n_classes, rate, rng)
    assert (noisy != labels).sum() == round(rate * n)  # a flip that kept the true class would be missing here
    assert set(noisy.tolist()) <= set(range(n_classes))


def test_symmetric_noise_spreads_evenly_over_samples_and_other_classes():
    labels = np.repeat(np.arange(4), 10_000)
    noisy = symmetric(labels, 4, 0.6, np.random.default_rng(0))
    table = np.zeros((4, 4))
    np.add.at(table, (labels, noisy), 1)
    expected = np.full((4, 4), 2_000.0)
    np.fill_diagonal(expected, 4_000.0)
    assert np.abs(table - expected).max() < 5 * np.sqrt(2_000)


def test_symmetric_noise_leaves_its_input_alone_and_repeats_with_the_seed():
    labels = np.arange(50) % 5
    before = labels.copy()
    first = symmetric(labels, 5, 0.5, np.random.default_rng(3))
    assert (labels == before).all()
    assert (first == symmetric(labels, 5, 0.5, np.random.default_rng(3))).all()
    assert (first != symmetric(labels, 5, 0.5, np.random.default_rng(4))).any()


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.37, 0.9])
def test_asymmetric_noise_flips_exactly_the_rate_of_mapped_samples_along_the_map(rate):
    labels = np.random.default_rng(0).integers(6, size=500)
    class_map = {0: 3, 3: 0, 5: 1}
    noisy = asymmetric(labels, class_map, rate, np.random.default_rng(1))
    flipped = noisy != labels
    assert flipped.sum() == round(rate * np.isin(labels, [0, 3, 5]).sum())
    assert all(class_map[a] == b for a, b in zip(labels[flipped], noisy[flipped], strict=True))


def test_spr_map_covers_half_of_cifar10_so_that_40_percent_is_20_of_all():
    labels = np.repeat(np.arange(10), 100)
    noisy = asymmetric(labels, spr_cifar10_map(), 0.4, np.random.default_rng(0))
    assert (noisy != labels).mean() == 0.2
    assert spr_cifar10_map() == {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}


@pytest.mark.parametrize("n_classes", [2, 7, 100])
def test_pairs_are_mutual_and_leave_at_most_one_class_out(n_classes):
    pairs = named_map("pairs", n_classes)
    assert all(pairs[other] == one != other for one, other in pairs.items())
    assert len(pairs) == n_classes - n_classes % 2
    assert pairs == named_map("pairs", n_classes)


def test_next_class_map_is_cyclic():
    assert next_class_map(3) == {0: 1, 1: 2, 2: 0}
    assert NAMED_MAPS["next"](3) == next_class_map(3)


@pytest.mark.parametrize(
    ("class_map", "message"),
    [({1: 1}, "class 1 to itself"), ({0: 7}, "0 to 4, but got 0 -> 7"), ({-1: 2}, "but got -1 -> 2")],
)
def test_bad_maps_are_refused(class_map, message):
    with pytest.raises(ValueError, match=message):
        check_class_map(class_map, n_classes=5)


def test_asymmetric_noise_refuses_a_map_to_itself():
    with pytest.raises(ValueError, match="class 2 to itself"):
        asymmetric(np.arange(4), {2: 2}, 0.5, np.random.default_rng(0))


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_rates_outside_0_to_1_are_refused(rate):
    with pytest.raises(ValueError, match="at least 0 and below 1"):
        symmetric(np.arange(4), 4, rate, np.random.default_rng(0))
    with pytest.raises(ValueError, match="at least 0 and below 1"):
        asymmetric(np.arange(4), {0: 1}, rate, np.random.default_rng(0))


@pytest.mark.parametrize("labels", [np.array([0, 4]), np.array([-1, 0]), np.array([0.5]), np.zeros((2, 2), int)])
def test_labels_that_are_not_classes_are_refused(labels):
    with pytest.raises(ValueError, match="labels should"):
        symmetric(labels, 4, 0.5, np.random.default_rng(0))


def test_symmetric_noise_needs_a_second_class():
    with pytest.raises(ValueError, match="at least 2 classes"):
        symmetric(np.zeros(10, dtype=int), 1, 0.5, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("sym-40", ("sym", 0.4)),
        ("sym40", ("sym", 0.4)),
        ("asym20", ("asym", 0.2)),
        ("asym-5", ("asym", 0.05)),
        ("sym0.35", ("sym", 0.35)),
        ("sym-.35", ("sym", 0.35)),
        ("sym-0", ("sym", 0.0)),
        ("none", ("none", 0.0)),
        ("clean", ("none", 0.0)),
    ],
)
def test_noise_specs(spec, expected):
    assert parse_noise(spec) == expected


@pytest.mark.parametrize("spec", ["", "sym", "40", "pair-40", "sym-100", "sym-1.5", "sym--4", "none40", "sym-40%"])
def test_bad_noise_specs_are_refused_with_what_came(spec):
    with pytest.raises(ValueError, match="should be") as caught:
        parse_noise(spec)
    assert repr(spec) in str(caught.value) or spec.partition("-")[2] in str(caught.value)


@given(st.floats(0, 0.999999))
def test_a_share_reads_back_as_it_was_written(share):
    assert parse_share(format_share(share), "share") == share


def test_noise_names_read_back():
    assert noise_name("sym", 0.4) == "sym-40"
    assert noise_name("none", 0.0) == "none"
    assert parse_noise(noise_name("asym", 0.125)) == ("asym", 0.125)

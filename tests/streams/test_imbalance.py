"""Long-tailed streams: the profile, what decides it, and that it can be made again."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from puridiver.errors import ManifestError
from puridiver.streams import Stream, make_stream, verify
from puridiver.streams.imbalance import profile

from .samples import small_source

SOURCE = small_source(counts=(100,) * 5)
TRUE = SOURCE.train.labels.numpy()


def counts_of(manifest) -> list[int]:
    return np.bincount(TRUE[manifest.order], minlength=5).tolist()


def test_classes_fall_exponentially_to_the_share_of_the_rarest():
    found = counts_of(make_stream(SOURCE, imbalance=0.1))
    assert sorted(found, reverse=True) == [round(100 * 0.1 ** (rank / 4)) for rank in range(5)] == [100, 56, 32, 18, 10]


def test_noise_is_planted_in_what_is_left_and_the_holdout_stays_balanced():
    manifest = make_stream(SOURCE, imbalance=0.1, noise="sym-50", holdout=50)
    assert sorted(counts_of(manifest)) == [9, 16, 28, 51, 90]
    assert np.bincount(TRUE[manifest.holdout]).tolist() == [10] * 5
    assert manifest.realised_noise == 0.5


def test_the_seed_decides_which_classes_are_rare():
    found = [counts_of(make_stream(SOURCE, imbalance=0.1, seed=seed)) for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("kind", ["blurry", "disjoint"])
def test_it_verifies_and_another_imbalance_does_not(kind):
    manifest = make_stream(SOURCE, kind=kind, imbalance=0.2, noise="sym-20", seed=3)
    assert verify(manifest, SOURCE) == []
    assert any("another order" in line for line in verify(dataclasses.replace(manifest, imbalance=0.3), SOURCE))


def test_the_profile_is_as_high_as_the_data_allow_and_leaves_no_class_empty():
    assert profile(np.array([40, 100, 100]), 0.25).tolist() == [40, 20, 10]
    assert profile(np.array([100, 10, 100]), 0.25).tolist() == [20, 10, 5]
    assert profile(np.array([3, 3, 3]), 0.01).tolist() == [3, 1, 1]


def test_classes_without_samples_have_no_rank():
    source = small_source(counts=(50, 0, 50))
    manifest = make_stream(source, n_tasks=1, noise="none", imbalance=0.5)
    assert sorted(np.bincount(manifest.labels, minlength=3).tolist()) == [0, 25, 50]


def test_a_balanced_stream_is_what_it_was_and_does_not_tell_of_it():
    assert make_stream(SOURCE, imbalance=1) == make_stream(SOURCE)
    assert "imbalance" not in make_stream(SOURCE).to_dict()
    assert make_stream(SOURCE, imbalance=0.5).to_dict()["imbalance"] == 0.5


@pytest.mark.parametrize("value", [0, -0.1, 1.5, float("nan"), "0.1", True])
def test_shares_that_are_none_are_refused(value):
    with pytest.raises(ValueError, match="imbalance should be above 0 and at most 1"):
        make_stream(SOURCE, imbalance=value)


def test_the_error_about_other_data_does_not_count_the_samples_left_out():
    manifest = dataclasses.replace(make_stream(SOURCE, imbalance=0.1), source_fingerprint="0" * 64)
    with pytest.raises(ManifestError, match="'small' was read otherwise when the stream was made"):
        Stream(SOURCE, manifest)

"""Instance-dependent noise: the rate comes out, and the image decides what a label turns into."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from puridiver.data import from_arrays
from puridiver.streams import make_stream, verify
from puridiver.streams.instance import features, flip_chances, flip_rates, instance_dependent, pick

N, CLASSES = 6_000, 6


def images(n: int = N, seed: int = 0, side: int = 6) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (n, side, side, 3), dtype=np.uint8))


def spoiled(rate: float, seed: int = 0, pictures: torch.Tensor | None = None) -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(N) % CLASSES
    pictures = images() if pictures is None else pictures
    return labels, instance_dependent(labels, pictures, np.arange(N), CLASSES, rate, np.random.default_rng(seed))


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_the_realised_rate_is_near_the_one_asked_for(rate):
    labels, noisy = spoiled(rate)
    expected = flip_rates(100_000, rate, np.random.default_rng(1)).mean()  # the cut at 0 moves a low one up a little
    assert abs(expected - rate) < 0.03
    assert abs((noisy != labels).mean() - expected) < 4 * np.sqrt(rate * (1 - rate) / N)


def test_flip_rates_are_a_cut_normal():
    rates = flip_rates(50_000, 0.4, np.random.default_rng(0))
    assert abs(rates.mean() - 0.4) < 0.005
    assert abs(rates.std() - 0.1) < 0.005
    assert rates.min() > 0
    assert flip_rates(50_000, 0.05, np.random.default_rng(0)).min() >= 0


def test_equal_images_of_a_class_flip_the_same_way_and_others_do_not():
    same = images(1).expand(N, -1, -1, -1)
    labels, noisy = spoiled(0.4, pictures=same)
    _, various = spoiled(0.4)
    for label in range(CLASSES):
        wrong = (labels == label) & (noisy != labels)
        share = np.bincount(noisy[wrong], minlength=CLASSES).max() / wrong.sum()
        other = (labels == label) & (various != labels)
        spread = np.bincount(various[other], minlength=CLASSES).max() / other.sum()
        assert share > 0.9 > 0.6 > spread


def test_chances_are_those_of_the_naive_loop():
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(20, 5)).astype(np.float32), rng.integers(0, 4, 20)
    matrices = rng.normal(size=(4, 5, 4)).astype(np.float32)
    found = flip_chances(x, labels, matrices)
    for i in range(20):
        scores = [float(x[i] @ matrices[labels[i]][:, c]) if c != labels[i] else -np.inf for c in range(4)]
        expected = np.exp(scores) / np.exp(scores).sum()
        assert np.allclose(found[i], expected, atol=1e-5)
        assert found[i, labels[i]] == 0


def test_picks_follow_the_chances_and_never_leave_them():
    chances = np.tile([0.2, 0.0, 0.8, 0.0], (10_000, 1))
    picks = pick(chances, np.random.default_rng(0).random(10_000))
    assert set(picks.tolist()) == {0, 2}
    assert abs((picks == 0).mean() - 0.2) < 0.02
    assert pick(chances[:1], np.array([np.nextafter(1, 0)])).tolist() == [2]


def test_large_images_are_averaged_down():
    assert features(images(3, side=80)).shape == (3, 32 * 32 * 3)
    assert features(images(3, side=6)).shape == (3, 108)


def test_it_is_a_noise_of_streams_that_can_be_made_again():
    labels = np.arange(300) % 3
    pictures = images(300).numpy()
    source = from_arrays(pictures, labels, pictures[:9], labels[:9])
    manifest = make_stream(source, n_tasks=3, noise="instance-30", seed=4, holdout=30)
    assert (manifest.noise, manifest.noise_rate) == ("instance", 0.3)
    assert 0.2 < manifest.realised_noise < 0.4
    assert verify(manifest, source) == []
    assert make_stream(source, n_tasks=3, noise="instance-30", seed=5) != manifest
    assert make_stream(source, n_tasks=3, noise="instance-0").realised_noise == 0

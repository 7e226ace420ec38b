"""Labels put wrong on purpose: at the exact rate, by the source's map."""

from __future__ import annotations

import numpy as np
import pytest

from puridiver.data import load
from puridiver.streams.plant import plant

DIGITS = load("digits")
TRUE = DIGITS.train.labels.numpy()


@pytest.mark.parametrize("noise", ["sym-20", "asym-40"])
def test_the_rate_is_exact_and_the_seed_decides(noise):
    given = plant(TRUE, DIGITS, noise, np.random.default_rng(3))
    assert (given != TRUE).sum() == round(int(noise[-2:]) / 100 * len(TRUE))
    assert np.array_equal(given, plant(TRUE, DIGITS, noise, np.random.default_rng(3)))


def test_asymmetric_noise_goes_to_the_next_class_without_a_map():
    given = plant(TRUE, DIGITS, "asym-20", np.random.default_rng(0))
    wrong = given != TRUE
    assert (given[wrong] == (TRUE[wrong] + 1) % 10).all()


def test_noise_that_cannot_be_planted_is_refused():
    with pytest.raises(ValueError, match=r"noise to plant should be .* but got 'none'"):
        plant(TRUE, DIGITS, "none", np.random.default_rng(0))

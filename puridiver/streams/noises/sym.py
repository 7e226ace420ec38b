"""Symmetric label noise: a wrong label is any other class, uniformly."""

import numpy as np

from puridiver.streams.checks import IntArray, require
from puridiver.streams.noise import Noise, NoiseSetting


class Symmetric(Noise):
    """Give exactly round(rate * N) labels, chosen uniformly, another class drawn uniformly."""

    name = "sym"
    written = "sym-RATE"
    hint = "sym"

    def apply(self, rng: np.random.Generator, labels: IntArray, setting: NoiseSetting) -> IntArray:
        noisy, n_wrong = labels.copy(), round(setting.rate * len(labels))
        if n_wrong == 0:
            return noisy
        require(setting.n_classes > 1, "classes of symmetric noise", "at least 2", setting.n_classes)
        wrong = rng.choice(len(noisy), size=n_wrong, replace=False)
        other = rng.integers(setting.n_classes - 1, size=n_wrong)
        noisy[wrong] = other + (other >= noisy[wrong])  # step over the true class
        return noisy

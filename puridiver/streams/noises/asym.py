"""Asymmetric label noise: a wrong label is the class that a map names."""

import numpy as np

from puridiver.streams.checks import IntArray
from puridiver.streams.noise import Noise, NoiseSetting


class Asymmetric(Noise):
    """Flip exactly round(rate * n) of the n samples whose class is in the map to what it maps to."""

    name = "asym"
    written = "asym-RATE"
    uses_map = True

    def apply(self, rng: np.random.Generator, labels: IntArray, setting: NoiseSetting) -> IntArray:
        noisy, class_map = labels.copy(), setting.class_map or {}
        eligible = np.flatnonzero(np.isin(noisy, list(class_map)))
        n_wrong = round(setting.rate * len(eligible))
        wrong = rng.choice(eligible, size=n_wrong, replace=False) if n_wrong else eligible[:0]
        noisy[wrong] = [class_map[label] for label in noisy[wrong].tolist()]
        return noisy

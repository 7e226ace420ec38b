"""Noise that looks at the labels alone: none, symmetric and asymmetric; and labels that somebody wrote by hand."""

import numpy as np

from puridiver.streams.checks import IntArray, require
from puridiver.streams.noise import Noise, NoiseSetting


class NoNoise(Noise):
    """Keep the labels that the source gives."""

    name = "none"
    written = "none"
    hint = "none"

    def apply(self, rng: np.random.Generator, labels: IntArray, setting: NoiseSetting) -> IntArray:
        return labels


class Custom(Noise):
    """Labels given by hand; they come with their manifest."""

    name = "custom"
    written = ""


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

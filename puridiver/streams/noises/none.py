"""Labels without planted noise: as the source gives them, or as somebody wrote them into a manifest."""

import numpy as np

from puridiver.streams.checks import IntArray
from puridiver.streams.noise import Noise, NoiseSetting


class NoNoise(Noise):
    """Keep the labels that the source gives."""

    name = "none"
    written = "none"
    has_rate = False
    hint = "none"

    def apply(self, rng: np.random.Generator, labels: IntArray, setting: NoiseSetting) -> IntArray:
        return labels


class Custom(Noise):
    """Labels given by hand; they come with their manifest."""

    name = "custom"
    written = ""
    has_rate = False
    from_file = True

    def apply(self, rng: np.random.Generator, labels: IntArray, setting: NoiseSetting) -> IntArray:
        raise ValueError("custom noise cannot be planted: its labels come with a manifest (--stream FILE.json)")

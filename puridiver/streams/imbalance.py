"""Long-tailed streams: class frequencies that fall exponentially from the most frequent class to the rarest.

As usual since Cui et al., "Class-balanced loss" (CVPR 2019): of C classes by rank r = 0 .. C - 1, class r keeps
n imbalance^(r / (C - 1)) samples. Which class has which rank is the seed's choice.
"""

from __future__ import annotations

from numbers import Real

import numpy as np

from puridiver.streams.checks import IntArray

BALANCED = 1.0


def check_imbalance(imbalance: float) -> float:
    """The share as a float, after checking that it lies in (0, 1]."""
    if not isinstance(imbalance, Real) or isinstance(imbalance, bool) or not 0 < imbalance <= 1:
        raise ValueError(
            "imbalance should be above 0 and at most 1 (the rarest class's share of the most frequent one's samples; "
            f"1 leaves the data as they are), but got {imbalance!r}"
        )
    return float(imbalance)


def thinned(labels: IntArray, n_classes: int, imbalance: float, rng: np.random.Generator) -> IntArray:
    """Which samples stay, in their order, so that the rarest class has `imbalance` of the most frequent one's.

    Every class falls to its place in the profile, and the profile is as high as the data allow. A class without
    samples has no rank.
    """
    if imbalance == BALANCED:
        return np.arange(len(labels))
    counts = np.bincount(labels, minlength=n_classes)
    ranked = rng.permutation(np.flatnonzero(counts))
    kept = [
        rng.permutation(np.flatnonzero(labels == label))[:quota]
        for label, quota in zip(ranked.tolist(), profile(counts[ranked], imbalance).tolist(), strict=True)
    ]
    return np.sort(np.concatenate(kept)) if kept else np.arange(0)


def profile(counts: IntArray, imbalance: float) -> IntArray:
    """How many samples classes keep that have `counts` of them, the most frequent one first; at least one each."""
    shares = imbalance ** (np.arange(len(counts)) / max(len(counts) - 1, 1))
    top = (counts / shares).min()  # no class may need more than it has
    return np.clip(np.rint(top * shares).astype(np.int64), 1, counts)

"""Labels put wrong on purpose, without a stream: to see what an audit finds."""

from __future__ import annotations

import numpy as np

from puridiver.data.base import DataSource
from puridiver.streams.checks import IntArray
from puridiver.streams.noise import asymmetric, next_class_map, parse_noise, symmetric


def plant(labels: IntArray, source: DataSource, noise: str, rng: np.random.Generator) -> IntArray:
    """The labels with symmetric or asymmetric noise ("sym-20", "asym-40"), the latter by the source's own class map."""
    kind, rate = parse_noise(noise)
    n_classes = len(source.class_names)
    if kind == "sym":
        return symmetric(labels, n_classes, rate, rng)
    if kind == "asym":
        return asymmetric(labels, source.asymmetric_map or next_class_map(n_classes), rate, rng)
    raise ValueError(f'noise to plant should be "sym-RATE" or "asym-RATE", such as "sym-20", but got {noise!r}')

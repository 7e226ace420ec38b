"""Small data sources, made by hand, for the tests of streams."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from puridiver.data.base import DataSource, ImageSet


def labelled_images(labels: np.ndarray, rng: np.random.Generator) -> ImageSet:
    images = rng.integers(256, size=(len(labels), 2, 2, 1), dtype=np.uint8)
    return ImageSet(torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64)))


def small_source(
    counts: Sequence[int] = (30,) * 10,
    name: str = "small",
    asymmetric_map: dict[int, int] | None = None,
    seed: int = 0,
) -> DataSource:
    """counts[c] random 2 x 2 train images of each class c, in random order, and 3 test images a class."""
    rng = np.random.default_rng(seed)
    train = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    test = rng.permutation(np.repeat(np.arange(len(counts)), 3))
    names = tuple(f"class-{label}" for label in range(len(counts)))
    return DataSource(name, names, labelled_images(train, rng), labelled_images(test, rng), asymmetric_map)

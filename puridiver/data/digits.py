"""Scikit-learn's handwritten digits: 1,797 images of 8x8, embedded, so that everything runs offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from puridiver.data.base import DataSource, ImageSet

# Beyond what suits images of this size (puridiver.recipes): a mirrored 2 is no 2.
DEFAULTS: dict[str, Any] = {"network": "small", "memory": 100, "flip": False, "diversity": True}

CLASSES = 10
TEST_PER_CLASS = 40
SPLIT_SEED = 0
LARGEST_VALUE = 16
FINGERPRINT = "a05f0dbbc0659d056240a59ef6d4eb94ff799cb51f2ba5b6244bd0bcb4c9d709"


def load_digits(root: Path | None = None) -> DataSource:
    """1,397 train and 400 test images (40 of each class); `root` is not read."""
    from sklearn.datasets import load_digits as sklearn_digits

    values, labels = sklearn_digits(return_X_y=True)
    images = np.rint(values.reshape(-1, 8, 8, 1) * (255 / LARGEST_VALUE)).astype(np.uint8)
    train, test = split(labels)
    return DataSource(
        name="digits",
        class_names=tuple(str(digit) for digit in range(CLASSES)),
        train=_image_set(images, labels, train),
        test=_image_set(images, labels, test),
        defaults=dict(DEFAULTS),
    )


def split(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Train and test indices: the first 40 of each class, in a seeded order, are the test part."""
    # Raw bits, not Generator.permutation: NumPy promises the bits for ever, but not what its methods do.
    order = np.argsort(np.random.PCG64(SPLIT_SEED).random_raw(len(labels)))
    test = np.concatenate([order[labels[order] == digit][:TEST_PER_CLASS] for digit in range(CLASSES)])
    return np.setdiff1d(np.arange(len(labels)), test), np.sort(test)


def check_digits(root: Path) -> list[str]:
    """Whether this scikit-learn still ships the digits that our results were measured on."""
    found = load_digits().fingerprint
    if found == FINGERPRINT:
        return []
    return [f"scikit-learn's digits differ: their fingerprint should be {FINGERPRINT}, but is {found}"]


def _image_set(images: np.ndarray, labels: np.ndarray, chosen: np.ndarray) -> ImageSet:
    return ImageSet(torch.from_numpy(images[chosen]), torch.from_numpy(labels[chosen].astype(np.int64)))

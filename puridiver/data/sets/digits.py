"""Scikit-learn's handwritten digits: 1,797 images of 8x8, embedded, so that everything runs offline."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from puridiver.data.base import DataSet, DataSource, FileOptions, ImageSet, OnProgress

TEST_PER_CLASS = 40
SPLIT_SEED = 0


class Digits(DataSet):
    """1,397 train and 400 test images, 40 of each class."""

    name = "digits"
    title = "handwritten digits that come with scikit-learn"
    home_page = "https://archive.ics.uci.edu/dataset/80"
    size = "1,397 + 400 images, 8x8 grey, 10 classes"
    # Beyond what suits images of this size: a mirrored 2 is no 2.
    defaults = {"network": "small", "memory": 100, "flip": False, "diversity": True}  # noqa: RUF012
    fingerprint = "a05f0dbbc0659d056240a59ef6d4eb94ff799cb51f2ba5b6244bd0bcb4c9d709"

    def load(self, root: Path, cache: Path, options: FileOptions, on_progress: OnProgress | None) -> DataSource:
        from sklearn.datasets import load_digits

        values, labels = load_digits(return_X_y=True)
        images = np.rint(values.reshape(-1, 8, 8, 1) * (255 / 16)).astype(np.uint8)
        train, test = (
            ImageSet(torch.from_numpy(images[rows]), torch.from_numpy(labels[rows].astype(np.int64)))
            for rows in split(labels)
        )
        return DataSource(self.name, tuple("0123456789"), train, test, defaults=dict(self.defaults))


def split(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Train and test indices: the first 40 of each class, in a seeded order, are the test part."""
    # Raw bits, not Generator.permutation: NumPy promises the bits for ever, but not what its methods do.
    order = np.argsort(np.random.PCG64(SPLIT_SEED).random_raw(len(labels)))
    test = np.concatenate([order[labels[order] == digit][:TEST_PER_CLASS] for digit in range(10)])
    return np.setdiff1d(np.arange(len(labels)), test), np.sort(test)

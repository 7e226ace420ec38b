"""Scikit-learn's handwritten digits: 1,797 images of 8x8, embedded, so that everything runs offline."""

import importlib.util
from pathlib import Path

import numpy as np
import torch

from puridiver.data.base import DataSet, DataSource, FileOptions, ImageSet, OnProgress, seeded_order

TEST_PER_CLASS = 40


class Digits(DataSet):
    """1,397 train and 400 test images, 40 of each class."""

    name = "digits"
    title = "handwritten digits that come with scikit-learn"
    home_page = "https://archive.ics.uci.edu/dataset/80"
    size = "1,397 + 400 images, 8x8 grey, 10 classes"
    # Beyond what suits images of this size: a mirrored 2 is no 2.
    defaults = {"network": "convnet", "memory": 100, "flip": False, "diversity": True}
    fingerprint = "a05f0dbbc0659d056240a59ef6d4eb94ff799cb51f2ba5b6244bd0bcb4c9d709"

    def load(self, root: Path, options: FileOptions, on_progress: OnProgress | None) -> DataSource:
        values, labels = values_and_labels()
        images = torch.from_numpy(np.rint(values.reshape(-1, 8, 8, 1) * (255 / 16)).astype(np.uint8))
        order, is_test = seeded_order(len(labels)), np.zeros(len(labels), dtype=bool)
        for digit in range(10):
            is_test[order[labels[order] == digit][:TEST_PER_CLASS]] = True
        ids = torch.from_numpy(labels)
        train, test = ImageSet(images[~is_test], ids[~is_test]), ImageSet(images[is_test], ids[is_test])
        return DataSource(self.name, tuple("0123456789"), train, test, defaults=dict(self.defaults))


def values_and_labels() -> tuple[np.ndarray, np.ndarray]:
    """Pixels (N, 64) from 0 to 16 and digits (N,), from scikit-learn's file: to import scikit-learn takes a second."""
    home = importlib.util.find_spec("sklearn")
    file = Path(home.origin or "").parent / "datasets/data/digits.csv.gz" if home else None
    if file is None or not file.is_file():
        from sklearn.datasets import load_digits

        values, labels = load_digits(return_X_y=True)
        return values, labels.astype(np.int64)
    table = np.loadtxt(file, delimiter=",")
    return table[:, :-1], table[:, -1].astype(np.int64)

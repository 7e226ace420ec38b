"""CIFAR-10, and what it shares with CIFAR-100: both from their official binary files.

A record is its label bytes (CIFAR-100: coarse, then fine) and 3,072 pixel bytes: the red, green and blue plane.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from puridiver.data.base import Archive, DataSet, DataSource, FileOptions, ImageSet, OnProgress
from puridiver.errors import DataError, few
from puridiver.files import read_regular

PIXELS = 3 * 32 * 32
PAIRS = (("truck", "airplane"), ("automobile", "horse"), ("frog", "ship"), ("cat", "dog"), ("bird", "deer"))


class Cifar(DataSet):
    """One of the two: `train_files` and `test_files` map a file's name to its number of records."""

    home_page = "https://www.cs.toronto.edu/~kriz/cifar.html"
    archive: ClassVar[Archive]
    train_files: ClassVar[dict[str, int]]
    test_files: ClassVar[dict[str, int]]
    label_bytes: ClassVar[int]
    class_names: ClassVar[tuple[str, ...]]

    def load(self, root: Path, options: FileOptions, on_progress: OnProgress | None) -> DataSource:
        train, test = (self.read(root, files) for files in (self.train_files, self.test_files))
        parts = self.image_set(train), self.image_set(test)
        return DataSource(self.name, self.class_names, *parts, self.noise_map(train), dict(self.defaults))

    def image_set(self, records: np.ndarray) -> ImageSet:
        planes = records[:, self.label_bytes :].reshape(-1, 3, 32, 32)
        labels = records[:, self.label_bytes - 1].astype(np.int64)
        return ImageSet(torch.from_numpy(planes.transpose(0, 2, 3, 1).copy()), torch.from_numpy(labels))

    def noise_map(self, records: np.ndarray) -> dict[int, int]:
        """The usual class map of asymmetric noise."""
        raise NotImplementedError

    def find_folder(self, root: Path) -> Path:
        """The folder of the .bin files: `root` itself, or the archive's folder in it."""
        nested = root / self.archive.folder
        return root if any((root / name).is_file() for name in self.train_files) and not nested.is_dir() else nested

    def is_here(self, root: Path) -> bool:
        files, size = self.train_files | self.test_files, self.label_bytes + PIXELS
        paths = {self.find_folder(root) / name: records * size for name, records in files.items()}
        return all(path.is_file() and path.stat().st_size == expected for path, expected in paths.items())

    def read(self, root: Path, files: dict[str, int]) -> np.ndarray:
        """All records of the files: uint8, (N, label bytes + 3072)."""
        folder, contents = self.find_folder(root), []
        for name, records in files.items():
            path, expected = folder / name, records * (self.label_bytes + PIXELS)
            contents.append(read_regular(path) if path.is_file() else b"")
            if len(contents[-1]) != expected:
                found = f"has {len(contents[-1]):,}" if path.is_file() else "is missing"
                get_it = f"puridiver data fetch {self.name} --root {shlex.quote(str(folder.parent))}"
                raise DataError(f"{path} should have {expected:,} bytes, but {found}. Get it with: {get_it}")
        found_records = np.frombuffer(b"".join(contents), dtype=np.uint8).reshape(-1, self.label_bytes + PIXELS)
        largest, allowed = int(found_records[:, self.label_bytes - 1].max()), len(self.class_names) - 1
        if largest > allowed:
            raise DataError(f"{few(files)} should hold labels from 0 to {allowed}, but the largest is {largest}")
        return found_records


class Cifar10(Cifar):
    """50,000 train and 10,000 test images."""

    name = "cifar10"
    title = "CIFAR-10, small photographs"
    size = "50,000 + 10,000 images, 32x32 colour, 10 classes"
    defaults = {"network": "resnet18", "memory": 500}  # noqa: RUF012
    fingerprint = "f81fe13277584ec2ba5a8d2cac17a5d2197d49c1a2b8330877374abf2929e213"
    train_files = {f"data_batch_{number}.bin": 10_000 for number in range(1, 6)}  # noqa: RUF012
    test_files = {"test_batch.bin": 10_000}  # noqa: RUF012
    label_bytes = 1
    class_names = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
    archive = Archive(
        url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        md5="c32a1d4ab5d03f1284b67883e8d87530",
        size_bytes=170_052_171,
        folder="cifar-10-batches-bin",
    )

    def noise_map(self, records: np.ndarray) -> dict[int, int]:
        pairs = [(self.class_names.index(one), self.class_names.index(other)) for one, other in PAIRS]
        return dict(sorted(pairs + [(other, one) for one, other in pairs]))

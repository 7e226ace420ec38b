"""CIFAR-10 and CIFAR-100 from their official binary files.

A record is its label bytes (CIFAR-100: coarse, then fine) and 3,072 pixel bytes: the red, green and blue plane.
"""

import shlex
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from puridiver.data.base import Archive, DataSet, DataSource, FileOptions, ImageSet, OnProgress
from puridiver.errors import DataError, few
from puridiver.files import read_regular

PIXELS = 3 * 32 * 32
CIFAR100_NAMES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup
dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower
leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid
otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray
road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle
wardrobe whale willow_tree wolf woman worm
"""
# For each fine class of CIFAR-100, the next one (cyclically) of its coarse class.
CIFAR100_MAP = (
    51, 32, 11, 42, 30, 20, 7, 14, 13, 10, 16, 35, 17, 48, 18, 19, 28, 37, 24, 21, 25, 31, 39, 33, 6, 84, 45, 29,
    61, 44, 55, 38, 67, 49, 63, 46, 50, 68, 15, 40, 86, 69, 43, 88, 78, 77, 98, 52, 58, 60, 65, 53, 56, 57, 62, 72,
    59, 83, 90, 96, 71, 9, 70, 64, 66, 74, 75, 73, 76, 81, 82, 23, 95, 91, 80, 34, 12, 79, 93, 99, 36, 85, 92, 0,
    94, 89, 87, 22, 97, 41, 8, 1, 54, 27, 5, 4, 47, 3, 2, 26,
)  # fmt: skip


class Cifar(DataSet):
    """One of the two: `train_files` and `test_files` map a file's name to its number of records."""

    home_page = "https://www.cs.toronto.edu/~kriz/cifar.html"
    train_files: ClassVar[dict[str, int]]
    test_files: ClassVar[dict[str, int]]
    label_bytes: ClassVar[int]
    class_names: ClassVar[tuple[str, ...]]
    asymmetric_map: ClassVar[tuple[int, ...]]  # the usual class map of asymmetric noise

    def load(self, root: Path, options: FileOptions, on_progress: OnProgress | None) -> DataSource:
        train, test = (self.read(root, files) for files in (self.train_files, self.test_files))
        class_map = dict(enumerate(self.asymmetric_map))
        return DataSource(self.name, self.class_names, train, test, class_map, dict(self.defaults))

    def read(self, root: Path, files: dict[str, int]) -> ImageSet:
        """All records of the files."""
        folder, contents = self.find_folder(root) or root / self.folders[0], []
        for name, count in files.items():
            path, expected = folder / name, count * (self.label_bytes + PIXELS)
            contents.append(read_regular(path) if path.is_file() else b"")
            if len(contents[-1]) != expected:
                get_it = f"puridiver data fetch {self.name} --root {shlex.quote(str(folder.parent))}"
                found = f"should have {expected:,} bytes, but has {len(contents[-1]):,}, or is missing"
                raise DataError(f"{path} {found}. Get it with: {get_it}")
        records = np.frombuffer(b"".join(contents), dtype=np.uint8).reshape(-1, self.label_bytes + PIXELS)
        labels, allowed = records[:, self.label_bytes - 1].astype(np.int64), len(self.class_names) - 1
        if labels.max() > allowed:
            raise DataError(f"{few(files)} should hold labels from 0 to {allowed}, but the largest is {labels.max()}")
        pixels = records[:, self.label_bytes :].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        return ImageSet(torch.from_numpy(pixels.copy()), torch.from_numpy(labels))


class Cifar10(Cifar):
    """50,000 train and 10,000 test images."""

    name = "cifar10"
    title = "CIFAR-10, small photographs"
    size = "50,000 + 10,000 images, 32x32 colour, 10 classes"
    defaults = {"network": "resnet18", "memory": 500}
    fingerprint = "f81fe13277584ec2ba5a8d2cac17a5d2197d49c1a2b8330877374abf2929e213"
    train_files = {f"data_batch_{number}.bin": 10_000 for number in range(1, 6)}
    test_files = {"test_batch.bin": 10_000}
    label_bytes = 1
    class_names = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
    # Truck and airplane, automobile and horse, frog and ship, cat and dog, bird and deer, both ways.
    asymmetric_map = (9, 7, 4, 5, 2, 3, 8, 1, 6, 0)
    archive = Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "c32a1d4ab5d03f1284b67883e8d87530", 170_052_171,
    )  # fmt: skip
    folders = ("cifar-10-batches-bin",)
    proof = "data_batch_1.bin"


class Cifar100(Cifar):
    """50,000 train and 10,000 test images with 100 fine labels."""

    name = "cifar100"
    title = "CIFAR-100, small photographs, fine labels"
    size = "50,000 + 10,000 images, 32x32 colour, 100 classes"
    defaults = {"network": "resnet32", "memory": 2000, "warmup_epochs": 30, "baseline_warmup": 30}
    fingerprint = "ba17dae4fe17ddf0aa0367dd6c6b9639bb12011937e6e9a6d57ee0998ba275e9"
    train_files = {"train.bin": 50_000}
    test_files = {"test.bin": 10_000}
    label_bytes = 2
    class_names = tuple(CIFAR100_NAMES.split())
    asymmetric_map = CIFAR100_MAP
    archive = Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        "03b5dce01913d631647c71ecec9e9cb8", 168_513_733,
    )  # fmt: skip
    folders = ("cifar-100-binary",)
    proof = "train.bin"

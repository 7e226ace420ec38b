"""CIFAR-10 and CIFAR-100 from their official binary files.

A record is its label bytes (CIFAR-100: coarse, then fine) and 3,072 pixel bytes: the red, the green and the
blue plane.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from puridiver.data.base import DataSource, ImageSet
from puridiver.errors import DataError

SIDE = 32
PIXEL_BYTES = 3 * SIDE * SIDE

CIFAR10_DEFAULTS: dict[str, Any] = {"network": "resnet18", "memory": 500}
CIFAR100_DEFAULTS: dict[str, Any] = {"network": "resnet32", "memory": 2000, "warmup_epochs": 30, "baseline_warmup": 30}

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR10_PAIRS = (
    ("truck", "airplane"),
    ("automobile", "horse"),
    ("frog", "ship"),
    ("cat", "dog"),
    ("bird", "deer"),
)
# One text, not a hundred quoted lines: this file should stay readable in one sitting.
_CIFAR100_NAMES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup
dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower
leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid
otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray
road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle
wardrobe whale willow_tree wolf woman worm
"""
CIFAR100_CLASSES = tuple(_CIFAR100_NAMES.split())


@dataclass(frozen=True)
class Layout:
    """Where one of the two data sets lies, and what its files should hold.

    `train_files` and `test_files` map a file name to its official number of records.
    """

    name: str
    folder: str
    train_files: dict[str, int]
    test_files: dict[str, int]
    label_bytes: int
    names_file: str
    class_names: tuple[str, ...]

    @property
    def record_bytes(self) -> int:
        return self.label_bytes + PIXEL_BYTES

    @property
    def files(self) -> dict[str, int]:
        return self.train_files | self.test_files


CIFAR10 = Layout(
    name="cifar10",
    folder="cifar-10-batches-bin",
    train_files={f"data_batch_{number}.bin": 10_000 for number in range(1, 6)},
    test_files={"test_batch.bin": 10_000},
    label_bytes=1,
    names_file="batches.meta.txt",
    class_names=CIFAR10_CLASSES,
)
CIFAR100 = Layout(
    name="cifar100",
    folder="cifar-100-binary",
    train_files={"train.bin": 50_000},
    test_files={"test.bin": 10_000},
    label_bytes=2,
    names_file="fine_label_names.txt",
    class_names=CIFAR100_CLASSES,
)


def load_cifar10(root: Path, strict: bool = True) -> DataSource:
    """CIFAR-10 from `root`, or from the folder of the .bin files itself.

    Parameters
    ----------
    strict
        Ask for the official number of records; otherwise fewer will do.
    """
    folder = locate(CIFAR10, root, strict)
    pairs = [(CIFAR10_CLASSES.index(one), CIFAR10_CLASSES.index(other)) for one, other in CIFAR10_PAIRS]
    return DataSource(
        name="cifar10",
        class_names=_class_names(CIFAR10, folder),
        train=_image_set(_records(CIFAR10, folder, CIFAR10.train_files), CIFAR10),
        test=_image_set(_records(CIFAR10, folder, CIFAR10.test_files), CIFAR10),
        asymmetric_map=dict(sorted(pairs + [(other, one) for one, other in pairs])),
        defaults=dict(CIFAR10_DEFAULTS),
    )


def load_cifar100(root: Path, strict: bool = True) -> DataSource:
    """CIFAR-100 with its 100 fine labels; parameters as for `load_cifar10`."""
    folder = locate(CIFAR100, root, strict)
    train = _records(CIFAR100, folder, CIFAR100.train_files)
    return DataSource(
        name="cifar100",
        class_names=_class_names(CIFAR100, folder),
        train=_image_set(train, CIFAR100),
        test=_image_set(_records(CIFAR100, folder, CIFAR100.test_files), CIFAR100),
        asymmetric_map=next_in_superclass(coarse=train[:, 0], fine=train[:, 1]),
        defaults=dict(CIFAR100_DEFAULTS),
    )


def next_in_superclass(coarse: np.ndarray, fine: np.ndarray) -> dict[int, int]:
    """Each fine class to the next one, by id and cyclically, that shares its coarse class."""
    pairs = np.unique(np.stack([coarse, fine], axis=1), axis=0)  # sorted by coarse, then fine
    if len(pairs) != len(np.unique(fine)):
        raise DataError("every fine class should lie in one coarse class, but some lie in several")
    following: dict[int, int] = {}
    for superclass in np.unique(pairs[:, 0]):
        members = [int(label) for label in pairs[pairs[:, 0] == superclass, 1]]
        following.update(zip(members, members[1:] + members[:1], strict=True))
    return dict(sorted(following.items()))


def locate(layout: Layout, root: Path, strict: bool = True) -> Path:
    """The folder of the .bin files: `root` or the layout's folder in it; DataError if it is not whole."""
    problems = file_problems(layout, root, strict)
    if problems:
        raise DataError(f"{'; '.join(problems)}. {fetch_hint(layout, root)}")
    return _folder(layout, root)


def is_here(layout: Layout, root: Path) -> bool:
    """Whether every file is in place with its official size; their content is not read."""
    return not file_problems(layout, root)


def file_problems(layout: Layout, root: Path, strict: bool = True) -> list[str]:
    """What is wrong with the files' presence and sizes, one line each."""
    folder = _folder(layout, root)
    if not folder.is_dir():
        return [f"{layout.name} was not found: looked for the folder {folder}"]
    problems = (_file_problem(layout, folder / name, records, strict) for name, records in layout.files.items())
    return [problem for problem in problems if problem]


def _folder(layout: Layout, root: Path) -> Path:
    root = Path(root)
    nested = root / layout.folder
    if not nested.is_dir() and any((root / name).is_file() for name in layout.files):
        return root
    return nested


def fetch_hint(layout: Layout, root: Path) -> str:
    folder = _folder(layout, root)
    return f"Get it with: puridiver data fetch {layout.name} --root {shlex.quote(str(folder.parent))}"


def _file_problem(layout: Layout, path: Path, records: int, strict: bool) -> str | None:
    if not path.is_file():
        return f"{path} is missing"
    expected, actual = records * layout.record_bytes, path.stat().st_size
    if strict and actual != expected:
        return f"{path} should have {expected:,} bytes, but has {actual:,}"
    if actual == 0 or actual > expected or actual % layout.record_bytes:
        allowed = f"a multiple of {layout.record_bytes:,} bytes up to {expected:,}"
        return f"{path} should have {allowed}, but has {actual:,}"
    return None


def _records(layout: Layout, folder: Path, files: dict[str, int]) -> np.ndarray:
    """uint8, (N, label bytes + 3072)."""
    return np.concatenate([_read(layout, folder / name) for name in files])


def _read(layout: Layout, path: Path) -> np.ndarray:
    records = np.fromfile(path, dtype=np.uint8).reshape(-1, layout.record_bytes)
    largest = int(records[:, layout.label_bytes - 1].max())
    if largest >= len(layout.class_names):
        raise DataError(
            f"{path} should hold labels from 0 to {len(layout.class_names) - 1}, but the largest is {largest}"
        )
    return records


def _image_set(records: np.ndarray, layout: Layout) -> ImageSet:
    planes = records[:, layout.label_bytes :].reshape(-1, 3, SIDE, SIDE)
    images = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))  # (N, 32, 32, 3)
    labels = records[:, layout.label_bytes - 1].astype(np.int64)
    return ImageSet(torch.from_numpy(images), torch.from_numpy(labels))


def _class_names(layout: Layout, folder: Path) -> tuple[str, ...]:
    path = folder / layout.names_file
    if not path.is_file():
        return layout.class_names
    names = tuple(path.read_text(encoding="utf-8", errors="replace").split())
    if len(names) != len(layout.class_names):
        raise DataError(f"{path} should name {len(layout.class_names)} classes, but names {len(names)}")
    return names

"""Images with labels (`ImageSet`, `DataSource`), and the base class of data sets known by name (`DataSet`)."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from puridiver.errors import DataError, few
from puridiver.learner.inputs import LONGEST_LABEL, MOST_CLASSES

UNKNOWN = -1  # an unknown true label
WRONG = -2  # a true label of which is known only that it is not the given one
SPLIT_SEED = 0

OnProgress = Callable[[int, int], None]


def own_defaults(labels: Tensor) -> dict[str, Any]:
    """Default run settings of a user's own data: no added noise, and at most as many tasks as classes that occur."""
    return {"noise": "none", "tasks": max(1, min(5, len(labels.unique())))}


def check_class_names(names: Sequence[str]) -> None:
    """Refuse class names that are too many, not unique, empty, too long or no text."""
    if len(names) > MOST_CLASSES:
        raise ValueError(f"there should be at most {MOST_CLASSES:,} classes, but there are {len(names):,}")
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"class names should all differ, but more than one is called {few(twice)}")
    for name in names:
        if not name.strip() or len(name) > LONGEST_LABEL or "\0" in name or printable(name) != name:
            wanted = f"1 to {LONGEST_LABEL} letters in UTF-8 and no NUL"
            raise ValueError(f"a class name should have {wanted}, but got {printable(name)[:40]!r}")


def printable(name: str) -> str:
    """The name as valid UTF-8: bytes that are not become escapes."""
    return name.encode("utf-8", "backslashreplace").decode()


def natural(names: Iterable[str]) -> list[str]:
    """Sort names; whole numbers within them count by size, so that 10 comes after 9."""
    digits = re.compile(r"(\d+)", re.ASCII)
    return sorted(names, key=lambda name: [(int(t), "") if t[:1].isdecimal() else (-1, t) for t in digits.split(name)])


def seeded_order(count: int) -> np.ndarray:
    """Rows in a fixed random order. NumPy guarantees raw bits across versions, but not permutations."""
    return np.argsort(np.random.PCG64(SPLIT_SEED).random_raw(count))


def check_test_share(origin: object, has_test: bool, share: float | None) -> None:
    """A test part comes with the data or is a share of them."""
    if has_test and share:
        raise ValueError(f"{origin} has a test part of its own: leave the test share out")
    if not has_test and share is None:
        raise DataError(
            f"{origin} has no test part (a folder, a split or arrays called test): say which share to test on, such as "
            "--test-share 0.2 (in a grid file test_share = 0.2)"
        )


def choose_test_rows(labels: np.ndarray, share: float) -> np.ndarray:
    """A mask of a seeded share of each class."""
    if not 0 <= share < 1:
        raise ValueError(f"test share should be at least 0 and below 1, but got {share}")
    order, chosen = seeded_order(len(labels)), np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        members = order[labels[order] == label]
        wanted = round(share * len(members))
        if share and len(members) > 1:  # both parts need every class
            wanted = min(max(1, wanted), len(members) - 1)
        chosen[members[:wanted]] = True
    return chosen


@dataclass(frozen=True, repr=False)
class ImageSet:
    """Images with the labels their source gives them. A stream may contaminate the labels further."""

    images: Tensor  # uint8 (N, H, W, 1 or 3), perhaps in a memory-mapped file; or vectors, float32 (N, d)
    labels: Tensor  # int64 (N,): class ids from 0
    true: Tensor | None = None  # int64 (N,): true class ids, or UNKNOWN or WRONG; None: `labels` are true
    times: Tensor | None = None  # float64 (N,): when each image was taken or labelled, in seconds
    names: Sequence[str] | None = None  # file names, relative to the data
    pixels_digest: str | None = None  # stands for the pixels in the fingerprint
    verified: Tensor | None = None  # bool (N,): which labels of a test part are certainly true; None: nothing is said

    def __post_init__(self) -> None:
        images, labels, shape = self.images, self.labels, tuple(self.images.shape)
        of_images = images.dtype == torch.uint8 and images.ndim == 4 and shape[3] in (1, 3)
        if not of_images and not (images.dtype == torch.float32 and images.ndim == 2):
            wanted = "uint8 (N, H, W, 1 or 3), or vectors, float32 (N, d)"
            raise ValueError(f"images should be {wanted}, but got {images.dtype} of shape {shape}")
        if labels.dtype != torch.int64 or labels.shape != shape[:1]:
            got = f"{labels.dtype} of shape {tuple(labels.shape)}"
            raise ValueError(f"labels should be int64 of shape {shape[:1]}, but got {got}")

    @property
    def true_labels(self) -> Tensor:
        """The true class ids, or UNKNOWN or WRONG."""
        return self.labels if self.true is None else self.true

    @property
    def best_labels(self) -> Tensor:
        """The true class ids where they are known, the given ones elsewhere: the reference for accuracy."""
        return torch.where(self.true_labels < 0, self.labels, self.true_labels)

    @property
    def truth_known(self) -> bool:
        """Whether of any label is known whether it is right."""
        return self.true is None or bool((self.true != UNKNOWN).any())

    def to_test_on(self) -> Self:
        """The same images with their best labels, and which of these are certainly true."""
        verified = None if self.true is None else self.true >= 0
        return replace(self, labels=self.best_labels, true=None, verified=verified)

    def part(self, rows: Tensor | slice) -> Self:
        """Some of the images; those of a slice stay in a memory-mapped file."""
        names = ("images", "labels", "true", "times", "names", "verified")
        return replace(self, **{name: found[rows] for name in names if (found := getattr(self, name)) is not None})

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True, repr=False)
class DataSource:
    """A named data set: train and test images, class names, and what suits it by default."""

    name: str
    class_names: tuple[str, ...]
    train: ImageSet
    test: ImageSet
    asymmetric_map: dict[int, int] | None = None  # the literature's class map of asymmetric noise; None: next class
    defaults: dict[str, Any] = field(default_factory=dict)  # run settings that a user's own settings override
    left_out: tuple[str, ...] = ()  # files that could not be read

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(height, width, channels), or (d,) of vectors."""
        return tuple(self.train.images.shape[1:])

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of class names, shapes, labels and pixels. A cache file's checksum stands for its pixels."""
        digest = hashlib.sha256("\x1f".join(self.class_names).encode())
        for part in (self.train, self.test):
            digest.update(repr(tuple(part.images.shape)).encode())
            digest.update(part.labels.contiguous().numpy().tobytes())
            for name in ("true", "times"):
                if (extra := getattr(part, name)) is not None:
                    digest.update(name.encode() + extra.contiguous().numpy().tobytes())
            if part.pixels_digest is not None:
                digest.update(part.pixels_digest.encode())
            else:
                digest.update(part.images.contiguous().numpy().reshape(-1).data)  # no copy
        return digest.hexdigest()


@dataclass(frozen=True)
class FileOptions:
    """How to read a user's own data."""

    # Pixels of the square, or (height, width), that image files are cut and resized to; None: what suits them.
    image_size: int | tuple[int, int] | None = None
    test_share: float | None = None  # share of each class to test on, where the data have no test part
    bad_files: str = "refuse"  # "refuse" data with unreadable files, or "skip" those files
    trust_labels: bool = False  # take the labels for true where the data tell no true ones


class Archive(NamedTuple):
    """A published .tar.gz."""

    url: str
    md5: str
    size_bytes: int


class DataSet:
    """A data set known by name: a subclass in a file of `puridiver/data/sets`."""

    name: ClassVar[str]
    title: ClassVar[str]
    home_page: ClassVar[str]
    size: ClassVar[str]  # in words
    defaults: ClassVar[dict[str, Any]] = {}  # run settings that suit the data
    archive: ClassVar[Archive | None] = None  # what `puridiver data fetch` downloads
    folders: ClassVar[tuple[str, ...]] = ()  # that it may lie in, below the data root
    proof: ClassVar[str] = ""  # a file that shows that a folder is the right one; empty: the package has the data
    fingerprint: ClassVar[str | None] = None  # of the official data

    def load(self, root: Path, options: FileOptions, on_progress: OnProgress | None) -> DataSource:
        """Load the data in the folder `root`."""
        raise NotImplementedError

    def find_folder(self, root: Path) -> Path | None:
        """The folder of the data: one of `folders`, or `root` itself; None where they are not here."""
        places = [*(root / name for name in self.folders), root]
        return next((place for place in places if not self.proof or (place / self.proof).is_file()), None)

    def problems(self, root: Path) -> list[str]:
        """What is wrong with the data in `root`, one line each. Damaged files raise a `DataError`."""
        found = self.load(root, FileOptions(), None).fingerprint
        if self.fingerprint in (None, found):
            return []
        return [f"{self.name} differs from the official data: fingerprint {found}, expected {self.fingerprint}"]

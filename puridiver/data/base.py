"""The base classes of data: images with labels (`ImageSet`, `DataSource`), and data sets known by name (`DataSet`)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from puridiver.errors import DataError, few

UNKNOWN = -1  # a true label that nobody knows
USUAL_TASKS = 5
LONGEST_NAME = 1000  # letters of a class name: every record and every table repeats it
BAD_FILES = ("refuse", "skip")

OnProgress = Callable[[int, int], None]


def suited_tasks(labels: np.ndarray) -> int:
    """How many tasks a stream of these labels has unless one says: no more than classes that occur can fill."""
    return max(1, min(USUAL_TASKS, len(np.unique(labels))))


def check_class_names(names: Sequence[str]) -> None:
    """Refuse names that are empty, not unique, too long, or that some programs cut off at a NUL character."""
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"class names should all differ, but more than one is called {few(twice)}")
    for name in names:
        if not name.strip() or len(name) > LONGEST_NAME or "\0" in name:
            raise ValueError(
                f"a class name should have 1 to {LONGEST_NAME} letters and no NUL among them, but got {name[:40]!r} of "
                f"{len(name):,}"
            )


@dataclass(frozen=True, repr=False)
class ImageSet:
    """Images with the labels their source gives them.

    Parameters
    ----------
    images
        uint8, (N, H, W, C) with 1 or 3 channels. May lie in a memory-mapped file.
    labels
        int64, (N,): class ids from 0, as the source gives them. The stream may contaminate them further.
    true
        int64, (N,): the true class ids, UNKNOWN where nobody knows. None: `labels` are the true ones.
    times
        float64, (N,): when each was taken or labelled, in seconds; for streams in the order of time.
    names
        Where each image came from: file names, relative to the data.
    pixels_digest
        Stands for the pixels in the fingerprint, where a checksum of them is known already.
    verified
        bool, (N,): of images to test on, whose labels are true for certain. None: nothing is said of single ones.
    """

    images: Tensor
    labels: Tensor
    true: Tensor | None = None
    times: Tensor | None = None
    names: Sequence[str] | None = None
    pixels_digest: str | None = None
    verified: Tensor | None = None

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.ndim != 4 or self.images.shape[3] not in (1, 3):
            raise ValueError(
                "images should be uint8 of shape (N, H, W, 1 or 3), "
                f"but got {self.images.dtype} of shape {tuple(self.images.shape)}"
            )
        for name, dtype in (("labels", torch.int64), ("true", torch.int64), ("times", torch.float64),
                            ("verified", torch.bool)):  # fmt: skip
            found = getattr(self, name)
            if found is not None and (found.dtype != dtype or found.shape != self.images.shape[:1]):
                raise ValueError(
                    f"{name} should be {dtype} of shape ({len(self.images)},), "
                    f"but got {found.dtype} of shape {tuple(found.shape)}"
                )
        if self.names is not None and len(self.names) != len(self.images):
            raise ValueError(f"names should be as many as images, {len(self.images)}, but got {len(self.names)}")

    @property
    def true_labels(self) -> Tensor:
        """The true class ids, UNKNOWN where nobody knows."""
        return self.labels if self.true is None else self.true

    @property
    def best_labels(self) -> Tensor:
        """The true class ids where they are known, the given ones elsewhere: what accuracy is judged by."""
        return torch.where(self.true_labels == UNKNOWN, self.labels, self.true_labels)

    def to_test_on(self) -> ImageSet:
        """The same with the best labels there are, and which of them are true for certain."""
        verified = None if self.true is None else self.true != UNKNOWN
        return replace(self, labels=self.best_labels, true=None, verified=verified)

    @property
    def truth_known(self) -> bool:
        """Whether any true label is known."""
        return self.true is None or bool((self.true != UNKNOWN).any())

    def taken(self, chosen: Tensor) -> ImageSet:
        """The images that a mask (N,) chooses."""
        rows = chosen.nonzero().squeeze(1)
        parts = {name: getattr(self, name) for name in ("images", "labels", "true", "times", "verified")}
        chosen_parts: dict[str, Any] = {name: None if part is None else part[rows] for name, part in parts.items()}
        names = None if self.names is None else [self.names[row] for row in rows.tolist()]
        return replace(self, **chosen_parts, names=names, pixels_digest=None)

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True, repr=False)
class DataSource:
    """A named data set: train and test images, class names, and what suits it by default.

    `asymmetric_map` is the class map that the literature uses for asymmetric noise on this data (class id to
    class id); where it is None the stream maker falls back to the next class. `defaults` holds run settings that
    suit the data (network, memory size, epochs, augmentation); a user's own settings override them. `left_out` names
    files that could not be read.
    """

    name: str
    class_names: tuple[str, ...]
    train: ImageSet
    test: ImageSet
    asymmetric_map: dict[int, int] | None = None
    defaults: dict[str, Any] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(height, width, channels)."""
        height, width, channels = self.train.images.shape[1:]
        return height, width, channels

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over class names, shapes, labels and pixels: equal data from one kind of source, equal fingerprint.

        Pixels in a cache file count by the file's checksum, so that gigabytes need not be read again.
        """
        digest = hashlib.sha256()
        digest.update("\x1f".join(self.class_names).encode())
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
    """How data of one's own become a data source.

    Parameters
    ----------
    image_size
        Pixels of the square that every image file is cut and resized to; None: what suits the data.
    test_share
        Share of each class that is kept out of the stream for testing, where the data have no test part.
    bad_files
        What happens with files that cannot be read: "refuse" the data or "skip" the files.
    trust_labels
        Take the labels for true where the data say nothing of true ones; then noise can be planted and measured.
    """

    image_size: int | None = None
    test_share: float | None = None
    bad_files: str = "refuse"
    trust_labels: bool = False

    def __post_init__(self) -> None:
        if self.bad_files not in BAD_FILES:
            raise ValueError(f"bad_files should be one of {', '.join(BAD_FILES)}, but got {self.bad_files!r}")

    def refuse_any(self, name: str, but: str = "") -> None:
        """Refuse options of image files for other data."""
        for option in ("image_size", "test_share"):
            if option != but and getattr(self, option) is not None:
                raise ValueError(f"{option} is for data made of image files: leave it out with {name}")


@dataclass(frozen=True)
class Archive:
    """A published .tar.gz and the folder it holds."""

    url: str
    md5: str
    size_bytes: int
    folder: str


class DataSet:
    """A data set known by name: one subclass, in one file of `puridiver/data/sets`, is one data set."""

    name: ClassVar[str]
    title: ClassVar[str]
    home_page: ClassVar[str]
    size: ClassVar[str]  # in words
    defaults: ClassVar[dict[str, Any]] = {}  # run settings that suit the data
    image_files: ClassVar[bool] = False  # whether `FileOptions` apply
    archive: ClassVar[Archive | None] = None  # what `puridiver data fetch` downloads
    fingerprint: ClassVar[str | None] = None  # of the official data

    def load(self, root: Path, cache: Path, options: FileOptions, on_progress: OnProgress | None) -> DataSource:
        """Load the data that lie in `root`; decoded image files are kept in `cache`."""
        raise NotImplementedError

    def is_here(self, root: Path) -> bool:
        """Whether the files seem to be in `root`, by their names and sizes."""
        return True

    def problems(self, root: Path) -> list[str]:
        """What is wrong with the data in `root`, one line each."""
        try:
            found = self.load(root, root, FileOptions(), None).fingerprint
        except DataError as error:
            return [str(error)]
        if self.fingerprint in (None, found):
            return []
        return [f"{self.name} differs from the official data: fingerprint {found}, expected {self.fingerprint}"]

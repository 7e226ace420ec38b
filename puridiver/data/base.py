"""What every data source gives: images, labels, class names, and a fingerprint of it all."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

UNKNOWN = -1  # a true label that nobody knows
USUAL_TASKS = 5


def suited_tasks(labels: np.ndarray) -> int:
    """How many tasks a stream of these labels has unless one says: no more than classes that occur can fill."""
    return max(1, min(USUAL_TASKS, len(np.unique(labels))))


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
        if self.labels.dtype != torch.int64 or self.labels.shape != self.images.shape[:1]:
            raise ValueError(
                f"labels should be int64 of shape ({len(self.images)},), "
                f"but got {self.labels.dtype} of shape {tuple(self.labels.shape)}"
            )
        for name, dtype in (("true", torch.int64), ("times", torch.float64), ("verified", torch.bool)):
            found = getattr(self, name)
            if found is not None and (found.dtype != dtype or found.shape != self.labels.shape):
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

    def __repr__(self) -> str:
        size = "x".join(map(str, self.images.shape[1:]))
        return f"ImageSet({len(self.labels):,} images of {size})"

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
        return ImageSet(
            self.images[rows],
            self.labels[rows],
            None if self.true is None else self.true[rows],
            None if self.times is None else self.times[rows],
            None if self.names is None else [self.names[row] for row in rows.tolist()],
            verified=None if self.verified is None else self.verified[rows],
        )

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

    def __repr__(self) -> str:
        return f"DataSource({self.name!r}, {len(self.class_names)} classes, train={self.train}, test={self.test})"

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

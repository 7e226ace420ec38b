"""What every data source gives: images, labels, class names, and a fingerprint of it all."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class ImageSet:
    """Images with the labels their source gives them.

    Parameters
    ----------
    images
        uint8, (N, H, W, C) with 1 or 3 channels.
    labels
        int64, (N,): class ids from 0. The stream may contaminate them; here they count as true.
    """

    images: Tensor
    labels: Tensor

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

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True)
class DataSource:
    """A named data set: train and test images, class names, and what suits it by default.

    `asymmetric_map` is the class map that the literature uses for asymmetric noise on this data (class id to
    class id); where it is None the stream maker falls back to the next class. `defaults` holds run settings that
    suit the data (network, memory size, epochs, augmentation); a user's own settings override them.
    """

    name: str
    class_names: tuple[str, ...]
    train: ImageSet
    test: ImageSet
    asymmetric_map: dict[int, int] | None = None
    defaults: dict[str, Any] = field(default_factory=dict)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(height, width, channels)."""
        height, width, channels = self.train.images.shape[1:]
        return height, width, channels

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over class names, shapes, labels and pixels: equal data, equal fingerprint."""
        digest = hashlib.sha256()
        digest.update("\x1f".join(self.class_names).encode())
        for part in (self.train, self.test):
            digest.update(repr(tuple(part.images.shape)).encode())
            digest.update(part.labels.contiguous().numpy().tobytes())
            digest.update(part.images.contiguous().numpy().tobytes())
        return digest.hexdigest()

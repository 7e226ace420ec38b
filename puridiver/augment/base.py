"""What augmentations share: draws of one row per sample, the base of policies, and the check of images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

SMALLEST_SIDE = 4


@dataclass(frozen=True)
class RowDraw:
    """Random choices for a batch: every tensor field lives on the CPU and has one row per sample.

    Drawing and applying are two steps so that the host knows the choices without asking the device, and so
    that CPU and GPU give the same images from the same generator.
    """

    def __len__(self) -> int:
        return len(next(iter(self._tensors().values())))

    def rows(self, index: slice | Tensor) -> Self:
        """The draw of some of the samples; of one sample i: `draw.rows(slice(i, i + 1))`."""
        return replace(self, **{name: value[index] for name, value in self._tensors().items()})

    def _tensors(self) -> dict[str, Tensor]:
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}


class Policy(ABC):
    """A strong augmentation, chosen by its name with the option `strong`. A subclass writes `apply`."""

    name: ClassVar[str]

    @abstractmethod
    def apply(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Augment each image of a uint8 batch (N, C, H, W) on its own, drawing from the generator alone."""


def check_images(images: Tensor) -> None:
    """Raises ValueError unless images are uint8 (N, C, H, W) with 1 or 3 channels and sides of at least 4."""
    if (
        images.dtype != torch.uint8
        or images.ndim != 4
        or images.shape[1] not in (1, 3)
        or min(images.shape[2:]) < SMALLEST_SIDE
    ):
        raise ValueError(
            f"images should be uint8 of shape (N, 1 or 3, H, W) with H, W >= {SMALLEST_SIDE}, "
            f"but got {images.dtype} of shape {tuple(images.shape)}"
        )


def check_rows(images: Tensor, draw: RowDraw) -> None:
    """Raises ValueError unless the draw has one row for each image."""
    if len(draw) != len(images):
        raise ValueError(f"the draw should have one row per image, but got {len(draw)} rows for {len(images)} images")


def check_count(n: int) -> None:
    """Raises ValueError unless n can be a number of samples."""
    if n < 0:
        raise ValueError(f"n should be 0 or more samples, but got {n}")

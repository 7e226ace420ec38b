"""Random draws with one row per sample, the base class of policies, and checks of arguments."""

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

    Drawing and applying are two steps. So the host knows the choices without a transfer from the device, and CPU and
    GPU give the same images from the same generator.
    """

    def __len__(self) -> int:
        return len(next(iter(self._tensors().values())))

    def rows(self, index: slice | Tensor) -> Self:
        """The draw of some samples; `draw.rows(slice(i, i + 1))` is that of sample i."""
        return replace(self, **{name: value[index] for name, value in self._tensors().items()})

    def _tensors(self) -> dict[str, Tensor]:
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}


class Policy(ABC):
    """A strong augmentation, chosen by its name with the option `strong`. A subclass writes `apply`."""

    name: ClassVar[str]

    @abstractmethod
    def apply(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Augment each image of a uint8 batch (N, C, H, W), with random numbers from the generator alone."""


def check_batch(images: Tensor, draw: RowDraw) -> None:
    """Raise a ValueError unless the images are valid and the draw has one row for each."""
    check_images(images)
    if len(draw) != len(images):
        raise ValueError(f"the draw should have one row per image, but got {len(draw)} rows for {len(images)} images")


def check_images(images: Tensor) -> None:
    """Raise a ValueError unless images are uint8 (N, C, H, W) with 1 or 3 channels and sides of at least 4."""
    is_batch = images.dtype == torch.uint8 and images.ndim == 4
    if not is_batch or images.shape[1] not in (1, 3) or min(images.shape[2:]) < SMALLEST_SIDE:
        raise ValueError(
            f"images should be uint8 of shape (N, 1 or 3, H, W) with H, W >= {SMALLEST_SIDE}, "
            f"but got {images.dtype} of shape {tuple(images.shape)}"
        )

"""Labelled images as the memory and the trainers pass them on: tensors of one device, a row a sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor


@dataclass(frozen=True)
class Samples:
    """Some samples: images, given labels, arrival numbers, and whatever a sampler noted about each on arrival."""

    NAMES: ClassVar = ("images", "labels", "arrivals", "notes")

    images: Tensor  # uint8 (N, C, H, W)
    labels: Tensor  # int64 (N,): the given labels
    arrivals: Tensor  # int64 (N,): how many samples came before it; names the sample for good
    notes: Tensor  # float32 (N,): a sampler's own figure, kept with the sample (NTD: its loss on arrival)

    def __len__(self) -> int:
        return len(self.labels)

    def tensors(self) -> dict[str, Tensor]:
        return {name: getattr(self, name) for name in self.NAMES}

    def split(self, size: int) -> list[Samples]:
        """Consecutive parts of `size` samples, as views."""
        parts = [tensor.split(size) for tensor in self.tensors().values()]
        return [Samples(*part) for part in zip(*parts, strict=True)]

    def take(self, rows: Tensor) -> Samples:
        return Samples(self.images[rows], self.labels[rows], self.arrivals[rows], self.notes[rows])


def joined(first: Samples, second: Samples) -> Samples:
    """Both, one after the other."""
    return Samples(
        torch.cat([first.images, second.images]),
        torch.cat([first.labels, second.labels]),
        torch.cat([first.arrivals, second.arrivals]),
        torch.cat([first.notes, second.notes]),
    )

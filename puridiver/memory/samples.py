"""Labelled images as the memory and the trainers pass them on: tensors of one device, a row a sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor


@dataclass(frozen=True)
class Samples:
    """Some samples: images, given labels, arrival numbers, whatever a sampler noted about each on arrival, and whether
    a person has checked its label (nobody has where that is left out)."""

    NAMES: ClassVar = ("images", "labels", "arrivals", "notes", "checked")

    images: Tensor  # uint8 (N, C, H, W)
    labels: Tensor  # int64 (N,): the given labels
    arrivals: Tensor  # int64 (N,): how many samples came before it; names the sample for good
    notes: Tensor  # float32 (N,): a sampler's own figure, kept with the sample (its loss on arrival)
    checked: Tensor = None  # type: ignore[assignment]  # bool (N,): such a label is not doubted any more

    def __post_init__(self) -> None:
        if self.checked is None:
            object.__setattr__(self, "checked", torch.zeros_like(self.labels, dtype=torch.bool))

    def __len__(self) -> int:
        return len(self.labels)

    def tensors(self) -> dict[str, Tensor]:
        return {name: getattr(self, name) for name in self.NAMES}

    def split(self, size: int) -> list[Samples]:
        """Consecutive parts of `size` samples, as views."""
        parts = [tensor.split(size) for tensor in self.tensors().values()]
        return [Samples(*part) for part in zip(*parts, strict=True)]

    def take(self, rows: Tensor) -> Samples:
        return Samples(*(tensor[rows] for tensor in self.tensors().values()))


def arrived(images: Tensor, labels: Tensor, first: int) -> Samples:
    """Samples that come now, the first of them after so many others."""
    arrivals = torch.arange(first, first + len(labels), device=labels.device)
    return Samples(images, labels, arrivals, torch.zeros(len(labels), device=labels.device))


def joined(first: Samples, second: Samples) -> Samples:
    """Both, one after the other."""
    pairs = zip(first.tensors().values(), second.tensors().values(), strict=True)
    return Samples(*(torch.cat(pair) for pair in pairs))

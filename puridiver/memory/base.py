"""What a sampler is: a choice of which samples of memory + batch stay."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from puridiver.recipes import Options
from puridiver.samples import Samples


class NetworkView(Protocol):
    """How a sampler may look through the network: no gradients, no BatchNorm updates."""

    def outputs(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Features (N, d) and logits (N, C) of uint8 images."""

    @property
    def class_weights(self) -> Tensor:
        """The classifier's weights, (C, d)."""


@dataclass(frozen=True)
class Moment:
    """What is known when a batch has arrived: the network, the batch's training loss, counts, randomness."""

    network: NetworkView
    batch_loss: Tensor  # (): mean training loss of this batch, Eq. 3
    n_classes: int
    seen_before: int  # samples of the stream before this batch
    generator: torch.Generator
    strong_view: Callable[[Tensor], Tensor]  # random augmentation of uint8 images


class Sampler(ABC):
    """Decides which samples of a pool stay in the memory. A subclass writes `choose`.

    Randomness comes from the moment's generator alone. `looks_through_network` tells the trainer that the memory's
    contents depend on the network's state (row 13 of docs/FIDELITY.md).
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    looks_through_network: ClassVar[bool] = False

    def __init__(self, options: Options) -> None:
        self.options = options

    def note_arrivals(self, batch: Samples, moment: Moment) -> Tensor:
        """A figure to keep with each arriving sample, (B,)."""
        return batch.notes

    @abstractmethod
    def choose(self, pool: Samples, n_old: int, capacity: int, moment: Moment) -> Tensor:
        """Rows of the pool (first the memory's `n_old`, then the batch, in order of arrival) that stay.

        At most `capacity` of them. Called for every batch, whether the memory is full or not.
        """

    def diagnostics(self) -> dict[str, Tensor]:
        """Figures of the last choice for the metrics, such as alpha."""
        return {}


def largest_class(counts: Tensor, tie_breakers: Tensor) -> Tensor:
    """The class with the most samples, (); ties go by the larger tie-breaker (numbers in [0, 1))."""
    return (counts + tie_breakers).argmax()

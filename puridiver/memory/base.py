"""What a sampler is: a choice of which samples of memory + batch stay."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from puridiver.memory.samples import Samples
from puridiver.options import Option, Options
from puridiver.runtime.device import Runtime
from puridiver.spr import Encoder


class NetworkView(Protocol):
    """How a sampler may look through the network: no gradients, no BatchNorm updates."""

    def outputs(self, images: Tensor, *, large_passes: bool = False) -> tuple[Tensor, Tensor]:
        """Features (N, d) and logits (N, C) of uint8 images; faster for thousands of them in `large_passes`."""

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
    runtime: Runtime
    new_encoder: Callable[[], Encoder]  # a network of the run's kind that learns from images alone
    seen_of: Mapping[int, int] = field(default_factory=dict)  # samples of each class (by given label) before this batch


class Sampler(ABC):
    """Decides which samples of a pool stay in the memory. A subclass writes `choose`.

    Randomness comes from the moment's generator alone. `freezes_norm` marks the samplers with which the released
    program leaves BatchNorm frozen online (row 13 of docs/FIDELITY.md). `filters` marks those that may turn samples
    away while there is room for them. `own_options` declares the options of the sampler's own, by names that no other
    method has; their values are in `self.options`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    freezes_norm: ClassVar[bool] = False
    filters: ClassVar[bool] = False
    own_options: ClassVar[Mapping[str, Option]] = {}

    def __init__(self, options: Options) -> None:
        self.options = options

    def delay(self, memory: int) -> int:
        """How many of the memory's places arrivals wait in, to be chosen from together; 0: each batch at once."""
        return 0

    def note_arrivals(self, batch: Samples, moment: Moment) -> Tensor:
        """A figure to keep with each arriving sample, (B,)."""
        return batch.notes

    @abstractmethod
    def choose(self, pool: Samples, n_old: int, capacity: int, moment: Moment) -> Tensor:
        """Rows of the pool (first the memory's `n_old`, then the batch, in order of arrival) that stay.

        At most `capacity` of them. Called for every batch (every full delay buffer), whether the memory is full or not.
        """

    def diagnostics(self) -> dict[str, Tensor]:
        """Figures of the last choice for the metrics, such as alpha."""
        return {}


def row_faults(rows: object, n: int, capacity: int) -> Iterator[str]:
    """What is wrong with a choice among n samples."""
    if not isinstance(rows, Tensor) or rows.ndim != 1 or rows.dtype != torch.int64:
        shape = f"tensor of {rows.dtype} and shape {tuple(rows.shape)}" if isinstance(rows, Tensor) else ""
        yield f"choose should return row numbers as an int64 tensor (N,), but returns a {shape or type(rows).__name__}"
        return
    if len(rows) > capacity:
        yield f"choose keeps more samples than the memory holds: {len(rows)} instead of at most {capacity}"
    if len(rows.unique()) < len(rows):
        yield "choose keeps a sample twice"
    if len(rows) and not (int(rows.min()) >= 0 and int(rows.max()) < n):
        yield f"choose returns rows that are not there: {int(rows.min())} to {int(rows.max())} of {n}"


def class_counts(labels: Tensor, members: Tensor, n_classes: int) -> Tensor:
    """How many members each class has, float32 (C,). Unlike `bincount` it does not make a GPU wait."""
    return torch.zeros(n_classes, device=labels.device).index_add_(0, labels, members.float())


def surviving_rows(alive: Tensor, n: int) -> Tensor:
    """The rows of the `n` True entries, in order, without asking the device how many there are."""
    return alive.logical_not().to(torch.uint8).argsort(stable=True)[:n]


def largest_class(counts: Tensor, tie_breakers: Tensor) -> Tensor:
    """The class with the most samples, (); ties go by the larger tie-breaker (numbers in [0, 1))."""
    return (counts + tie_breakers).argmax()

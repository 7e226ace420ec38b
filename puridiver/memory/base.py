"""What a sampler is: it chooses which samples of memory + batch stay. And what it is told: samples and the moment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter, methodcaller
from typing import ClassVar, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver.nets import Network
from puridiver.options import Option, Options
from puridiver.runtime.device import Runtime

NTD_VIEWS = Option(8, "augmented views over which an arriving sample's loss is averaged", low=1)


@dataclass(frozen=True)
class Samples:
    """Labelled images as the memory and the trainers pass them on: tensors of one device, a row a sample."""

    images: Tensor  # uint8 (N, C, H, W)
    labels: Tensor  # int64 (N,): class ids of the given labels
    arrivals: Tensor  # int64 (N,): how many samples came before it; names the sample for good
    notes: Tensor  # float32 (N,): a sampler's own figure, kept with the sample (its loss on arrival)
    checked: Tensor = None  # type: ignore[assignment]  # bool (N,): a person has checked the label; default: nobody

    def __post_init__(self) -> None:
        if self.checked is None:
            object.__setattr__(self, "checked", torch.zeros_like(self.labels, dtype=torch.bool))

    def __len__(self) -> int:
        return len(self.labels)

    def tensors(self) -> dict[str, Tensor]:
        return dict(vars(self))

    def split(self, size: int) -> list[Samples]:
        """Consecutive parts of `size` samples, as views."""
        return list(map(Samples, *map(methodcaller("split", size), vars(self).values())))

    def take(self, rows: Tensor | slice) -> Samples:
        return Samples(*map(itemgetter(rows), vars(self).values()))

    def joined(self, others: Samples) -> Samples:
        """These and then the others."""
        return Samples(*map(torch.cat, zip(vars(self).values(), vars(others).values(), strict=True)))


class NetworkView(Protocol):
    """What a sampler may ask of the network: no gradients, no BatchNorm updates."""

    def outputs(self, images: Tensor, *, large_passes: bool = False) -> tuple[Tensor, Tensor]:
        """Features (N, d) and logits (N, C) of uint8 images; `large_passes` is faster for thousands of them."""

    def to_float(self, images: Tensor) -> Tensor:
        """uint8 images as a network takes them."""

    def new_network(self, generator: torch.Generator) -> Network:
        """Another network of the same kind, with weights of its own."""

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
    seen_of: Mapping[int, int] = field(default_factory=dict)  # samples of each class (by given label) before this batch


class Sampler(ABC):
    """Decides which samples of a pool stay in the memory. A subclass writes `choose`.

    Randomness comes from the moment's generator alone. `own_options` declares options of the sampler's own, by names
    that no other method has; their values are in `self.options`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    own_options: ClassVar[Mapping[str, Option]] = {}
    # The released program freezes BatchNorm online with this sampler (row 13 of docs/fidelity.md).
    freezes_norm: ClassVar[bool] = False
    # This share of the memory's places is a delay buffer: arrivals wait there until it is full, and the sampler then
    # chooses among all of them. 0: it chooses at every batch.
    delay_share: ClassVar[float] = 0.0

    def __init__(self, options: Options) -> None:
        self.options = options

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
        came = f"{rows.dtype} {tuple(rows.shape)}" if isinstance(rows, Tensor) else type(rows).__name__
        yield f"choose should return row numbers as an int64 tensor (N,), but returns {came}"
        return
    if len(rows) > capacity:
        yield f"choose keeps more samples than the memory holds: {len(rows)} instead of at most {capacity}"
    if len(rows.unique()) < len(rows):
        yield "choose keeps a sample twice"
    if len(rows) and not (int(rows.min()) >= 0 and int(rows.max()) < n):
        yield f"choose returns rows that are not there: {int(rows.min())} to {int(rows.max())} of {n}"


def loss_on_arrival(batch: Samples, moment: Moment, views: int, by: str = "loss") -> Tensor:
    """Each sample's loss averaged over augmented views, (B,): before memory training can fit its label."""
    logits = moment.network.outputs(moment.strong_view(batch.images.repeat(views, 1, 1, 1)))[1]
    y = batch.labels.repeat(views)
    if by == "soft":
        losses = 0.5 * F.cross_entropy(2 * logits.float(), y, reduction="none")
    elif by in ("margin", "margin_arrival"):
        losses = logits.max(dim=1).values.float() - logits.gather(1, y[:, None]).squeeze(1).float()
    else:
        losses = F.cross_entropy(logits.float(), y, reduction="none")
    return losses.view(views, len(batch)).mean(dim=0)


def class_counts(labels: Tensor, members: Tensor, n_classes: int) -> Tensor:
    """How many members each class has, float32 (C,). Unlike `bincount` it does not make a GPU wait."""
    return torch.zeros(n_classes, device=labels.device).index_add_(0, labels, members.float())


def surviving_rows(alive: Tensor, n: int) -> Tensor:
    """The rows of the `n` True entries, in order, without asking the device how many there are."""
    return alive.logical_not().to(torch.uint8).argsort(stable=True)[:n]


def rows_by_class(labels: list[int]) -> dict[int, list[int]]:
    """The rows of each class, in order."""
    rows_of: dict[int, list[int]] = {}
    for row, label in enumerate(labels):
        rows_of.setdefault(label, []).append(row)
    return rows_of


def drop_one_of_largest(rows_of: dict[int, list[int]], generator: torch.Generator, newest: int | None = None) -> None:
    """Drop any row of the largest class: of that of the newest sample, itself included, if none is larger."""
    most = max(map(len, rows_of.values()))
    largest = [label for label, rows in sorted(rows_of.items()) if len(rows) == most]
    chosen = newest if newest in largest else largest[int(torch.randint(len(largest), (), generator=generator))]
    rows_of[chosen].pop(int(torch.randint(most, (), generator=generator)))

"""The episodic memory, the samplers that choose what it keeps, and what they are told."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter, methodcaller
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver.augment import repeated
from puridiver.options import Option, Options
from puridiver.runtime.device import Runtime
from puridiver.runtime.model import TrainableModel

NTD_VIEWS = Option(8, "augmented views over which an arriving sample's loss is averaged", low=1)
# Replayed samples are drawn and augmented for this many stream batches at once: launching the augmentation costs a
# GPU's host far more than the few images do. So a sample may be replayed up to 15 batches after it was evicted.
REPLAY_AHEAD = 16
OnCandidates = Callable[["Samples", int], None]  # gets a pool, and how many of it are the memory's, before a choice


@dataclass(frozen=True)
class Samples:
    """Labelled samples as the memory and the trainers pass them on: tensors of one device, a row a sample."""

    images: Tensor  # uint8 (N, C, H, W), or vectors, float32 (N, d)
    labels: Tensor  # int64 (N,): class ids of the given labels
    arrivals: Tensor  # int64 (N,): how many samples came before it; names the sample for good
    notes: Tensor  # float32 (N,), or (N, n_notes): a sampler's own figures, kept with the sample (its loss on arrival)
    came_with: Tensor  # int64 (N,): the class id before a person checked the label; -1: nobody has
    vectors: Tensor | None = None  # float32 (N, C): a trainer's own numbers for each class, kept with the sample

    @property
    def checked(self) -> Tensor:
        """Which labels a person has checked, bool (N,)."""
        return self.came_with >= 0

    def __len__(self) -> int:
        return len(self.labels)

    def tensors(self) -> dict[str, Tensor]:
        """Every field that there is, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def split(self, size: int) -> list[Samples]:
        """Consecutive parts of `size` samples, as views."""
        return list(map(Samples, *map(methodcaller("split", size), self.tensors().values())))

    def take(self, rows: Tensor | slice) -> Samples:
        pick = itemgetter(rows) if isinstance(rows, slice) else methodcaller("index_select", 0, rows)
        return Samples(*map(pick, self.tensors().values()))

    def joined(self, others: Samples) -> Samples:
        """These and then the others; vectors of fewer entries, from before classes joined, end with nan."""
        first, second = self.tensors(), others.tensors()
        if "vectors" in (first | second):
            width = max(found["vectors"].shape[1] for found in (first, second) if "vectors" in found)
            for found in (first, second):
                known = found.get("vectors", found["notes"].new_empty(len(found["labels"]), 0))
                found["vectors"] = F.pad(known, (0, width - known.shape[1]), value=torch.nan)
        return Samples(*map(torch.cat, zip(first.values(), second.values(), strict=True)))


@dataclass(frozen=True)
class Moment:
    """What is known when a batch has arrived: the network, the batch's training loss, counts, randomness.

    A sampler asks the network for `outputs`, a `gradient` or its `class_weights`, and does not train it.
    """

    network: TrainableModel
    batch_loss: Tensor  # (): mean training loss of this batch, Eq. 3
    n_classes: int
    seen_before: int  # samples of the stream before this batch
    generator: torch.Generator
    strong_view: Callable[[Tensor], Tensor]  # random augmentation of samples
    runtime: Runtime
    seen_of: Mapping[int, int] = field(default_factory=dict)  # samples of each class (by given label) before this batch
    replayed: Tensor | None = None  # int64 (R,): arrivals of the memory samples that joined the training step
    p_right: Tensor | None = None  # (B,): probability that each label of the batch is right; nan: nothing is known


class Memory:
    """At most `capacity` samples, chosen by a sampler."""

    parts: ClassVar[tuple[str, ...]] = ("samples",)  # the attributes that hold samples

    def __init__(self, sampler: Sampler, capacity: int, input_shape: tuple[int, ...], runtime: Runtime) -> None:
        self.sampler, self.capacity, self._runtime = sampler, capacity, runtime
        of_vectors = len(input_shape) == 1
        shape, dtype = (*input_shape[2:], *input_shape[:2]), torch.float32 if of_vectors else torch.uint8
        images = torch.empty(0, *shape, dtype=dtype, device=runtime.device)
        numbers = torch.empty(0, dtype=torch.int64, device=runtime.device)
        notes = numbers.float() if sampler.n_notes == 1 else numbers.float().expand(sampler.n_notes, 0).T
        self.samples = Samples(images, numbers, numbers, notes, numbers)
        self.replay_stock: list[Samples] = []  # a part for each stream batch to come
        # The package's own samplers are tested, and a GPU would have to wait for the answer.
        self._checks_choices = not type(sampler).__module__.startswith("puridiver.")

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def trained_on(self) -> Samples:
        """What a consolidation trains on."""
        return self.samples

    def update(self, batch: Samples, moment: Moment, on_candidates: OnCandidates) -> None:
        """Let the sampler choose from the memory and a batch that has arrived."""
        self._choose(self._noted(batch, moment), moment, on_candidates)

    def _noted(self, batch: Samples, moment: Moment) -> Samples:
        return replace(batch, notes=self._runtime.move(self.sampler.note_arrivals(batch, moment)))

    def _choose(self, noted: Samples, moment: Moment, on_candidates: OnCandidates) -> None:
        pool, n_old = self.samples.joined(noted), len(self.samples)
        on_candidates(pool, n_old)
        rows = self.sampler.choose(pool, n_old, self.capacity, moment)
        if self._checks_choices:
            check_rows(rows, len(pool), self.capacity)
        self.samples = pool.take(self._runtime.move(rows))

    def replay(
        self, size: int, view: Callable[[Tensor], Tensor], generator: torch.Generator, most_ahead: int = REPLAY_AHEAD
    ) -> Samples:
        """Augmented views of up to `size` distinct samples, to join a stream batch."""
        n = len(self.samples)
        if not self.replay_stock or len(self.replay_stock[-1]) != min(size, n):
            ahead = most_ahead if n == self.capacity else 1
            drawn = [torch.randperm(n, generator=generator)[:size] for _ in range(ahead)]
            picked = self.samples.take(self._runtime.move(torch.cat(drawn)))
            self.replay_stock = replace(picked, images=view(picked.images)).split(min(size, n))
        return self.replay_stock.pop()

    def held(self) -> Samples:
        """All samples, also those that a subclass keeps apart."""
        first, *others = (getattr(self, name) for name in self.parts)
        for samples in others:
            first = first.joined(samples)
        return first

    def correct(self, labels: Mapping[int, int | None]) -> None:
        """Give held samples the class ids that a person found, by arrival.

        None takes a correction back: the sample gets the class id that it came with.
        """
        self.replay_stock = []  # drawn with the old labels
        for name in self.parts:
            old: Samples = getattr(self, name)
            now, came_with = old.labels.tolist(), old.came_with.tolist()
            for row, arrival in enumerate(old.arrivals.tolist()):
                if arrival in labels:
                    first, new = came_with[row] if came_with[row] >= 0 else now[row], labels[arrival]
                    now[row], came_with[row] = (first, -1) if new is None else (new, first)
            as_tensor = old.labels.new_tensor
            setattr(self, name, replace(old, labels=as_tensor(now), came_with=as_tensor(came_with)))

    def forget(self, arrivals: Collection[int]) -> None:
        """Remove samples by arrival."""
        self.replay_stock = []
        for name in self.parts:
            old: Samples = getattr(self, name)
            rows = [row for row, arrival in enumerate(old.arrivals.tolist()) if arrival not in arrivals]
            setattr(self, name, old.take(self._runtime.move(torch.tensor(rows, dtype=torch.int64))))

    def drop_class(self, number: int) -> None:
        """Remove the samples of a class id; those of greater ids get the next smaller one.

        What came with the label and was corrected keeps its label, also if the correction is undone.
        """
        self.forget(set(self.held().arrivals[self.held().labels == number].tolist()))
        for name in self.parts:
            old: Samples = getattr(self, name)
            came_with = torch.where(old.came_with == number, old.labels, old.came_with)
            lower = [ids - (ids > number).long() for ids in (old.labels, came_with)]
            vectors = old.vectors
            if vectors is not None and number < vectors.shape[1]:
                vectors = torch.cat([vectors[:, :number], vectors[:, number + 1 :]], dim=1)
            setattr(self, name, replace(old, labels=lower[0], came_with=lower[1], vectors=vectors))

    def resize(self, places: int, moment: Moment | None = None, on_candidates: OnCandidates | None = None) -> None:
        """Hold at most this many samples. Once samples have come, the sampler needs the moment to choose."""
        held = self.samples
        if moment is not None and len(held) > places:
            self.samples = held.take(self._runtime.move(self.sampler.shrink(held, places, moment)))
        self.capacity = places

    def state(self) -> dict[str, Tensor]:
        """Every tensor, under names such as "samples.images"."""
        held = {name: getattr(self, name) for name in self.parts}
        held |= {f"replay{number:02}": part for number, part in enumerate(self.replay_stock)}
        return {f"{part}.{name}": value for part, samples in held.items() for name, value in samples.tensors().items()}

    def load_state(self, tensors: Mapping[str, Tensor], n_classes: int, seen: int) -> None:
        """Go back to a `state` with so many classes and arrivals; a ValueError names what does not fit."""
        parts: dict[str, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            part, _, field = name.partition(".")
            parts.setdefault(part, {})[field] = value
        found = {part: self._loaded(part, parts[part], n_classes, seen) for part in sorted(parts)}
        if len(found["samples"]) > self.capacity:
            raise ValueError(f"the memory holds at most {self.capacity} samples, but got {len(found['samples'])}")
        for name in self.parts:
            setattr(self, name, found.pop(name))
        self.replay_stock = list(found.values())

    def _loaded(self, part: str, tensors: Mapping[str, Tensor], n_classes: int, seen: int) -> Samples:
        n = len(tensors["labels"])
        for name, like in replace(self.samples, vectors=None).tensors().items():
            value, shape = tensors[name], (n, *like.shape[1:])
            if value.dtype != like.dtype or value.shape != shape:
                came = f"{value.dtype} {tuple(value.shape)}"
                raise ValueError(f"memory.{part}.{name} should be {like.dtype} {shape}, but is {came}")
        for name, least, end in (("labels", 0, n_classes), ("came_with", -1, n_classes), ("arrivals", 0, seen)):
            low, high = (int(tensors[name].min()), int(tensors[name].max())) if n else (least, least)
            if low < least or high >= max(end, 1):
                raise ValueError(f"memory.{part}.{name} should be from {least} to {end - 1}, but is {low} to {high}")
        vectors = tensors.get("vectors")
        if vectors is not None and (vectors.dtype != torch.float32 or vectors.ndim != 2 or len(vectors) != n):
            came = f"{vectors.dtype} {tuple(vectors.shape)}"
            raise ValueError(f"memory.{part}.vectors should be torch.float32 ({n}, width), but is {came}")
        return Samples(**{name: self._runtime.move(value) for name, value in tensors.items()})


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
    memory_class: ClassVar[type[Memory]] = Memory  # where the chosen samples are kept
    n_notes: ClassVar[int] = 1  # figures that are kept with each sample
    wants_verdicts: ClassVar[bool] = False  # `Moment.p_right`, which takes time

    def __init__(self, options: Options) -> None:
        self.options = options

    def note_arrivals(self, batch: Samples, moment: Moment) -> Tensor:
        """A figure to keep with each arriving sample, (B,), or `n_notes` of them, (B, n_notes)."""
        return batch.notes

    @abstractmethod
    def choose(self, pool: Samples, n_old: int, capacity: int, moment: Moment) -> Tensor:
        """Rows of the pool (first the memory's `n_old`, then the batch, in order of arrival) that stay.

        At most `capacity` of them. Called for every batch, whether the memory is full or not. It may write to
        `pool.notes`: those of the rows that stay are kept.
        """

    def judged_again(self, held: Samples, p_right: Tensor) -> Tensor:
        """New notes of held samples, whose labels have been judged again: `p_right` is (N,)."""
        return held.notes

    def shrink(self, held: Samples, capacity: int, moment: Moment) -> Tensor:
        """Rows that stay when the memory becomes smaller: the samples come once more, and `choose` decides."""
        labels, rows = moment.runtime.read(held.labels).tolist(), torch.arange(capacity)
        for part in torch.arange(capacity, len(held)).split(self.options.batch_size):
            start, candidates = int(part[0]), torch.cat([rows, part])
            pool = held.take(moment.runtime.move(candidates))
            now = replace(moment, seen_before=start, seen_of=Counter(labels[:start]))
            rows = candidates[moment.runtime.read(self.choose(pool, len(rows), capacity, now))]
        return rows

    def diagnostics(self) -> dict[str, Tensor]:
        """Figures of the last choice for the metrics, such as alpha."""
        return {}


def check_rows(rows: object, n: int, capacity: int) -> None:
    """Raise a ValueError unless a sampler has chosen valid rows of n samples."""
    if not isinstance(rows, Tensor) or rows.ndim != 1 or rows.dtype != torch.int64:
        came = f"{rows.dtype} {tuple(rows.shape)}" if isinstance(rows, Tensor) else type(rows).__name__
        raise ValueError(f"choose should return row numbers as an int64 tensor (N,), but returns {came}")
    found = rows.tolist()
    if len(found) > capacity or len(set(found)) < len(found) or not set(found) <= set(range(n)):
        raise ValueError(f"choose should return at most {capacity} different rows of {n}, but returns {found}")


def loss_on_arrival(batch: Samples, moment: Moment, views: int) -> Tensor:
    """Each arriving sample's mean loss over augmented views, (B,). Memory training has not fitted its label yet."""
    logits = moment.network.outputs(moment.strong_view(repeated(batch.images, views)))[1]
    losses = F.cross_entropy(logits.float(), batch.labels.repeat(views), reduction="none")
    return losses.view(views, len(batch)).mean(dim=0)


def class_counts(labels: Tensor, members: Tensor, n_classes: int) -> Tensor:
    """How many members each class has, float32 (C,). Unlike `bincount` it does not make a GPU wait."""
    return torch.zeros(n_classes, device=labels.device).index_add_(0, labels, members.float())


def surviving_rows(alive: Tensor, n: int) -> Tensor:
    """The rows of the `n` True entries, in order, without asking the device how many there are."""
    return alive.logical_not().to(torch.uint8).argsort(stable=True)[:n]

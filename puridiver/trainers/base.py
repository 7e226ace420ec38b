"""What a trainer is: networks and optimisers with two moves, a step on a stream batch and an epoch on the memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver import augment
from puridiver.equations import negative_entropy, soft_cross_entropy
from puridiver.memory import Samples
from puridiver.nets import Network, Outputs, build_network
from puridiver.options import Option, Options
from puridiver.runtime.device import Runtime
from puridiver.runtime.model import Inference, TrainableModel, sgd
from puridiver.runtime.plans import Buffers, PlanRunner
from puridiver.runtime.snapshots import Snapshot
from puridiver.trainers.schedule import SCHEDULES, in_batches
from puridiver.trainers.split import Sets, Split

# Views are made for several epochs at once: a pass of augmentation took an H200 7.8 ms for 500 images and 11.3 ms
# for 5,000. At 224 px making so many would take gigabytes.
VIEWS_AT_ONCE, VIEW_BYTES = 5_000, 64 << 20
PLANS_AT_ONCE = 16  # online steps for which all that is random is drawn at once

BASELINE_WARMUP = Option(10, "plain epochs at the start of each consolidation", low=0)


@dataclass(frozen=True)
class NoiseHint:
    """What a user may tell a trainer about the noise: its kind ("sym" or "asym") and its rate. Never needed."""

    kind: str
    rate: float

    def __post_init__(self) -> None:
        if self.kind not in ("none", "sym", "asym") or not isinstance(self.rate, Real) or not 0 <= self.rate < 1:
            raise ValueError(
                f"a hint should be none, sym or asym with a rate in [0, 1), but got {self.kind!r}, {self.rate}"
            )
        object.__setattr__(self, "rate", float(self.rate))  # also a NumPy number, which could not be saved


@dataclass(frozen=True)
class TrainerContext:
    """Everything a trainer is made of."""

    options: Options
    network: str
    n_classes: int
    image_shape: tuple[int, int, int]
    runtime: Runtime
    generator: torch.Generator  # on the CPU: initial weights, augmentation, order of batches
    hint: NoiseHint | None = None


class Trainer(ABC):
    """Base of every trainer. A subclass writes `memory_epoch`; two-network methods set `n_networks`.

    A step is a function of a plan's row (see `PlanRunner`) and of tensors in `self.buffers`: no host value, no
    random draw and no shape inside it depends on data, so that it can be captured once and replayed.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    own_options: ClassVar[Mapping[str, Option]] = {}  # what only this method has; `self.options` holds the values
    n_networks: ClassVar[int] = 1
    wants_hint: ClassVar[bool] = False  # does little without a hint of the noise
    reads_hint: ClassVar[bool] = False  # uses a hint of the noise
    learns_online: ClassVar[bool] = True  # from the labels of stream batches

    def __init__(self, context: TrainerContext) -> None:
        self.context, self.options = context, context.options
        self.runtime, self.generator = context.runtime, context.generator
        self.n_classes = context.n_classes
        o = context.options
        self.views = augment.ViewSettings(o.crop_padding, o.flip, o.strong, o.weak)
        # One scaling for every source: a stream's own statistics are not known before it has passed.
        channels = context.image_shape[2]
        self._mean = torch.full((channels,), 0.5, device=self.runtime.device)
        self._std = torch.full((channels,), 0.25, device=self.runtime.device)
        self.models: list[TrainableModel] = []
        for _ in range(self.n_networks):
            self.models.append(self.new_model(self.new_network(self.generator)))
            self.models[-1].set_rate(o.online_lr)
        self.inference = [Inference(model, self.to_float) for model in self.models]
        self.buffers = Buffers()
        self._run_plain = PlanRunner(self.runtime, self._plain_step)
        self._run_online = PlanRunner(self.runtime, self._online_step)
        self._view_stock: list[Tensor] = []
        self._online_plans: Tensor | None = None
        self._epochs_left = 0
        self._teachers: list[Snapshot] = []
        # How the last epoch divided the memory, for audits and metrics; and what of it the host knows.
        self.split: Split | None = None
        self.sets: Sets | None = None

    def new_network(self, generator: torch.Generator) -> Network:
        context = self.context
        return build_network(context.network, self.n_classes, context.image_shape, self.options, generator)

    def new_model(self, network: Network) -> TrainableModel:
        return TrainableModel(network, self.runtime, sgd(self.options), average=self.options.online_average)

    # The two moves ---------------------------------------------------------------------------------------------

    def observe(
        self, images: Tensor, labels: Tensor, replay: Samples | None = None, freeze_norm: bool = False
    ) -> Tensor:
        """Take `online_steps` steps on a stream batch, joined by replayed memory samples as they are.

        Returns the batch's training loss for Eq. 3, (): of the stream samples or of the mixed batch (row 3).
        """
        alone: Tensor | None = None
        if self.options.alpha_loss != "mixed" and (replay is not None or self.options.online_cutmix):
            # The training pass mixes the stream samples with others, so their loss takes a pass of its own.
            alone = F.cross_entropy(self.outputs(images).logits, labels)
        losses = []
        for _ in range(self.options.online_steps):
            for k in range(self.n_networks):
                losses.append(self._take_online_step(k, images, labels, replay, freeze_norm))
        return losses[0] if alone is None else alone  # of the step before which the batch was new

    def consolidate(self, memory: Samples, epochs: int, start: int = 0) -> Generator[int, None, None]:
        """Train on the memory, yielding after every epoch, with a fresh optimiser at the start and afterwards.

        `start` continues a consolidation that was saved (`state`) after that many epochs.
        """
        try:
            if start == 0:
                for model in self.models:
                    model.leave_average()
                    model.reset_optimiser(self.options.lr)
                self._view_stock = []
                if self.options.distil:
                    older = self._teachers or [None] * len(self.models)
                    self._teachers = [m.snapshot(o) for m, o in zip(self.models, older, strict=True)]
                self.begin_consolidation(memory)
            for epoch in range(start, epochs):
                self._epochs_left = epochs - epoch
                for model in self.models:
                    model.set_rate(self.memory_rate(epoch, epochs))
                self.memory_epoch(memory, epoch)
                yield epoch
        finally:  # also where the caller leaves before the last epoch
            self.end_consolidation()

    def end_consolidation(self) -> None:
        """Back to learning online."""
        self._view_stock = []
        for model in self.models:
            model.restart_average()
            model.reset_optimiser(self.options.online_lr)

    @abstractmethod
    def memory_epoch(self, memory: Samples, epoch: int) -> None:
        """One pass over the memory; `epoch` counts from 0 in each consolidation."""

    # Hooks with defaults ---------------------------------------------------------------------------------------

    def memory_rate(self, epoch: int, epochs: int) -> float:
        """The learning rate of an epoch on the memory."""
        return SCHEDULES[self.options.schedule](epoch, epochs, self.options.lr)

    def begin_consolidation(self, memory: Samples) -> None:
        """Called before the first epoch; most methods need nothing."""
        return

    def on_candidates(self, pool: Samples, n_old: int) -> None:
        """Called before the sampler chooses among the memory's `n_old` samples and what came; most need nothing."""
        return

    def memory_view(self, images: Tensor) -> Tensor:
        """How memory training augments what it learns labels from."""
        return self.strong_view(images)

    def probabilities(self, logits_of: Callable[[int], Tensor]) -> Tensor:
        """What the networks predict together, (N, C), from the logits of each: here the first network's alone."""
        return logits_of(0).softmax(dim=1)

    def sample_losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss of each sample in `plain_epoch`, (N,), from logits and soft targets, (N, C) each."""
        return soft_cross_entropy(logits, targets)

    def online_losses(self, logits: Tensor, targets: Tensor) -> Tensor | None:
        """The same of the online step, where that is another loss than cross-entropy."""
        return None

    # Inference -------------------------------------------------------------------------------------------------

    @property
    def networks(self) -> list[Network]:
        return [model.network for model in self.models]

    def outputs(self, images: Tensor, network: int = 0, large_passes: bool = False) -> Outputs:
        """Features and logits of uint8 images, without augmentation, BatchNorm at its running statistics.

        `large_passes` takes more at once on a GPU: for callers that ask for thousands at every batch.
        """
        return self.inference[network](images, large_passes=large_passes)

    @property
    def class_weights(self) -> Tensor:
        return self.models[0].class_weights

    def strong_view(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Drawn by the trainer's generator, or by another."""
        return augment.strong_view(images, self.views, generator or self.generator)

    def weak_view(self, images: Tensor) -> Tensor:
        return augment.weak_view(images, self.views, self.generator)

    def to_float(self, images: Tensor) -> Tensor:
        scaled = augment.to_float(images, self._mean, self._std)
        return scaled.contiguous(memory_format=torch.channels_last)

    # Pieces that the methods share -----------------------------------------------------------------------------

    def next_memory_view(self, memory: Samples) -> Tensor:
        """A fresh view of the whole memory, from a stock that is made for several epochs at once."""
        if not self._view_stock:
            at_once = min(VIEWS_AT_ONCE, VIEW_BYTES // memory.images[0].nbytes)
            wanted = max(1, min(at_once // len(memory), self._epochs_left))
            views = self.memory_view(memory.images.repeat(wanted, 1, 1, 1))
            self._view_stock = list(views.split(len(memory)))
        return self._view_stock.pop()

    @property
    def trains_rest(self) -> bool:
        """Whether what fills no whole batch of a memory epoch is a smaller one at its end (row 24)."""
        return self.options.last_batch == "trained"

    def batch_rows(self, n: int) -> Tensor:
        """A random order of n rows in batches of equal size, (steps, size), on the host.

        Rows that fill no batch wait for the next epoch.
        """
        return self.batch_parts(n, with_rest=False)[0]

    def batch_parts(self, n: int, with_rest: bool | None = None) -> list[Tensor]:
        """`batch_rows` and, if it is to be trained on (row 24), the rest, (1, size).

        A rest of a single row is left out all the same: BatchNorm cannot train on one.
        """
        order = torch.randperm(n, generator=self.generator)
        if n == 1:
            order = order.repeat(2)  # BatchNorm needs two rows
        return in_batches(order, self.options.batch_size, self.trains_rest if with_rest is None else with_rest)

    def cutmix_plan(self, steps: int, n: int, probability: float) -> Tensor:
        height, width, _ = self.context.image_shape
        return augment.draw_cutmix_plan(steps, n, height, width, probability, 1.0, self.generator)

    def plain_plans(self, n: int) -> Iterator[tuple[Tensor, int]]:
        """Batches of n rows in random order with a draw of CutMix for each: plans, and how many rows a step takes."""
        for rows in self.batch_parts(n):
            steps, size = rows.shape
            yield torch.cat([rows, self.cutmix_plan(steps, size, self.options.cutmix)], dim=1), size

    def one_hot(self, labels: Tensor) -> Tensor:
        return F.one_hot(labels, self.n_classes).float()

    def step(self, network: int, loss: Tensor) -> None:
        """One optimiser step of a network: the only place where weights change."""
        self.models[network].step(loss)

    def version(self, *buffers: str) -> tuple[int, ...]:
        """Changes whenever tensors that a captured step refers to were replaced: networks, or the named buffers."""
        return (*[model.generation for model in self.models], *self.buffers.versions(*buffers))

    def memory_batches(self, memory: Samples, targets: Tensor | None = None) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """The batches of one `plain_epoch`, CutMix and last batch included: rows (n,), scaled images, targets (n, C).

        For steps of another kind, launched one kernel after the other.
        """
        views, targets = self.next_memory_view(memory), self.one_hot(memory.labels) if targets is None else targets
        for plan, n in self.plain_plans(len(memory)):
            for row in self.runtime.move(plan):
                rows = row[:n]
                images, mixed = augment.planned_cutmix(views[rows], targets[rows], row[n:])
                yield rows, self.to_float(images), mixed

    def plain_epoch(
        self, memory: Samples, targets: Tensor | None = None, network: int = 0, entropy_weight: float = 0.0
    ) -> None:
        """`sample_losses` on augmented views of the whole memory, with CutMix; sure predictions may be penalised."""
        self.buffers.put("views", self.next_memory_view(memory))
        self.buffers.put("targets", self.one_hot(memory.labels) if targets is None else targets)
        for plan, n in self.plain_plans(len(memory)):
            self._run_plain(plan, network, n, entropy_weight, self.version("views", "targets"))

    def _plain_step(self, row: Tensor, network: int, n: int, entropy_weight: float, version: object) -> None:
        rows = row[:n]
        images, targets = self.buffers["views"][rows], self.buffers["targets"][rows]
        images, targets = augment.planned_cutmix(images, targets, row[n:])
        logits, kept = self.distilled(network, self.to_float(images))
        loss = _mean_of(self.sample_losses(logits, targets), n) + kept
        self.step(network, loss + entropy_weight * negative_entropy(logits) if entropy_weight else loss)

    def distilled(self, network: int, x: Tensor) -> tuple[Tensor, Tensor | float]:
        """Logits of a training pass, and the loss that keeps features near those from before the consolidation."""
        model, weight = self.models[network], self.options.distil
        if not weight:
            return model.logits(x), 0.0
        before = model.outputs(x, self._teachers[network]).features
        now = model.training_outputs(x)
        return now.logits, weight * (1 - F.cosine_similarity(now.features.float(), before, dim=1)).mean()

    # The online step -------------------------------------------------------------------------------------------

    def _take_online_step(
        self, network: int, images: Tensor, labels: Tensor, replay: Samples | None, freeze_norm: bool
    ) -> Tensor:
        n = len(images) + (len(replay) if replay is not None else 0)
        key = f"online{n}."  # one set of buffers for each batch size, since the last batch of a task is smaller
        self.buffers.fill(key + "images", images, None if replay is None else replay.images)
        self.buffers.fill(key + "labels", labels, None if replay is None else replay.labels)
        if key + "loss" not in self.buffers:
            self.buffers.put(key + "loss", torch.zeros((), device=self.runtime.device))
        version = self.version(key + "images", key + "labels", key + "loss")
        plan = self._next_online_plan(n, n_stream=len(images))
        self._run_online(plan, network, n, not freeze_norm and n > 1, version)
        return self.buffers[key + "loss"].clone()

    def _next_online_plan(self, n: int, n_stream: int) -> Tensor:
        """What is random about one online step, a row, from a stock: small draws cost a host more than they should."""
        views, moves, stock = self.views, self.options.online_crop_flip, self._online_plans
        if stock is None or not len(stock) or stock.shape[1] != n + 4 + 3 * n * moves:
            stock = self.cutmix_plan(PLANS_AT_ONCE, n, self.options.online_cutmix)
            if moves:
                drawn = augment.draw_crop_flip_plan(PLANS_AT_ONCE, n, views.crop_padding, views.flip, self.generator)
                stock = torch.cat([stock, drawn], dim=1)
        plan, self._online_plans = stock[:1], stock[1:]
        if moves:
            augment.leave_unmoved(plan[:, n + 4 :], n_stream, views.crop_padding)  # replayed views have moved
        return plan

    def _online_step(self, row: Tensor, network: int, n: int, train_norm: bool, version: object) -> None:
        key, model = f"online{n}.", self.models[network]
        images, targets = self.buffers[key + "images"], self.one_hot(self.buffers[key + "labels"])
        if self.options.online_crop_flip:
            images = augment.planned_crop_flip(images, row[n + 4 :], self.views.crop_padding)
        images, targets = augment.planned_cutmix(images, targets, row[: n + 4])
        logits = model.logits(self.to_float(images), train_norm)
        loss = soft_cross_entropy(logits, targets).mean()  # Eq. 3's, whatever is learnt by
        own = self.online_losses(logits, targets)
        self.step(network, loss if own is None else _mean_of(own, n))
        model.follow()
        self.buffers[key + "loss"].copy_(loss.detach())

    # Growth and state ------------------------------------------------------------------------------------------

    def grow(self, n_classes: int) -> None:
        """Room for more classes; the optimisers start afresh because their parameters changed shape."""
        self.n_classes = n_classes
        for model in self.models:
            model.grow(n_classes, self.generator)

    def state(self) -> dict[str, Tensor]:
        """All tensors that the future depends on, between two moves or two epochs of a consolidation."""
        tensors: dict[str, Tensor] = {}
        for k, model in enumerate(self.models):
            tensors |= model.state(k)
        if self._online_plans is not None and len(self._online_plans):
            tensors["online_plans"] = self._online_plans
        if self._view_stock:
            tensors["view_stock"] = torch.stack(self._view_stock)
        if self.split is not None:
            tensors |= {f"split.{name}": value for name, value in self.split.tensors().items()}
        return tensors

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        for k, model in enumerate(self.models):
            model.load_state(k, tensors)
        self._online_plans = tensors.get("online_plans")
        stock = tensors.get("view_stock")
        self._view_stock = [] if stock is None else list(self.runtime.move(stock).unbind())
        split = {k.removeprefix("split."): self.runtime.move(v) for k, v in tensors.items() if k.startswith("split.")}
        self.split = Split.from_tensors(split) if split else None
        self.sets = self.split.sets() if self.split is not None else None


def _mean_of(losses: Tensor, n: int) -> Tensor:
    """The mean loss of a batch; an error where there is not one of each sample."""
    if losses.shape != (n,):
        raise ValueError(
            f"sample_losses should return the loss of each sample, of shape ({n},), but returned {tuple(losses.shape)}"
        )
    return losses.mean()

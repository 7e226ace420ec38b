"""What a trainer is: networks and optimisers with two moves, a step on a stream batch and an epoch on the memory."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver import augment
from puridiver.equations import negative_entropy, soft_cross_entropy
from puridiver.memory import REPLAY_AHEAD, Samples
from puridiver.nets import Network, build_network
from puridiver.options import Option, Options
from puridiver.runtime.device import Runtime
from puridiver.runtime.model import OptimiserMaker, TrainableModel, sgd
from puridiver.runtime.plans import Buffers, PlanRunner, captured
from puridiver.trainers.batches import in_batches
from puridiver.trainers.hint import NoiseHint
from puridiver.trainers.online import Learnt, OnlineBatch, OnlinePlans, StreamBatch
from puridiver.trainers.schedule import SCHEDULES
from puridiver.trainers.split import Sets

LARGE = 4  # times the option `batch_size`: a stream batch that is larger comes in parts
BASELINE_WARMUP = Option(10, "plain epochs at the start of each consolidation", low=0)


@dataclass(frozen=True)
class TrainerContext:
    """Everything a trainer is made of."""

    options: Options
    network: str | type[Network]
    n_classes: int
    input_shape: tuple[int, ...]  # (height, width, channels), or (d,) of vectors
    runtime: Runtime
    generator: torch.Generator  # on the CPU: initial weights, augmentation, order of batches
    hint: NoiseHint | None = None


class Trainer:
    """Base of every trainer. A subclass overrides what differs from plain training.

    A step is a function of a plan's row (see `PlanRunner`) and of tensors in `self.buffers`: no host value, no
    random draw and no shape inside it depends on data, so that it can be captured once and replayed.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    own_options: ClassVar[Mapping[str, Option]] = {}  # what only this method has; `self.options` holds the values
    suits: ClassVar[Mapping[str, Any]] = {}  # shared options that the method sets instead of the recipe
    n_networks: ClassVar[int] = 1
    learns_online: ClassVar[bool] = True  # from the labels of stream batches
    saved_buffers: ClassVar[tuple[str, ...]] = ()  # names in `self.buffers` that are part of the state
    replay_ahead: ClassVar[int] = REPLAY_AHEAD  # stream batches for which a full memory's replay is drawn at once

    def __init__(self, context: TrainerContext) -> None:
        o = self.options = context.options
        self.context, self.runtime, self.generator = context, context.runtime, context.generator
        self.n_classes = context.n_classes
        self.augmentation = augment.augmentation_for(context.input_shape, o)
        self.models: list[TrainableModel] = []
        for _ in range(self.n_networks):
            network = build_network(context.network, self.n_classes, context.input_shape, o, self.generator)
            decay = o.online_average if self.learns_online else 0.0
            self.models.append(TrainableModel(network, self.runtime, self.optimiser(), decay))
            self.models[-1].set_rate(o.online_lr)
        self.buffers = Buffers()
        self._runners: dict[str, PlanRunner] = {}
        self._run_online = captured(self.runtime, self._online_step, *self.models, copies=True)
        self._online_plans = OnlinePlans(o, self.augmentation, self.generator)
        self._view_stock: list[Tensor] = []
        self._epochs_left = 0
        self.vectors: Tensor | None = None  # to be kept with the samples that were observed last, (B, d)
        self.sets: Sets | None = None  # how the last epoch divided the memory, for audits and metrics

    # The two moves ---------------------------------------------------------------------------------------------

    def observe(self, batch: StreamBatch) -> Tensor:
        """Take `online_steps` steps on a stream batch.

        Returns the batch's training loss for Eq. 3, (): of the stream samples or of the mixed batch (row 3).
        """
        images, labels, replay = batch.images, batch.labels, batch.replay
        n_stream, alone = len(images), None
        if self.options.alpha_loss != "mixed" and (replay is not None or self.options.online_cutmix):
            # The training pass mixes the stream samples with others, so their loss takes a pass of its own.
            alone = F.cross_entropy(self.models[0].outputs(images).logits, labels)
        vectors = labels.new_empty((0, 0), dtype=torch.float32)
        targets = self.one_hot(labels) if batch.targets is None else batch.targets
        if replay is not None:
            images, targets = torch.cat([images, replay.images]), torch.cat([targets, self.memory_targets(replay)])
            vectors = vectors if replay.vectors is None else replay.vectors
        train_norm = not batch.freeze_norm and len(images) > 1
        learnt: list[Learnt] = []
        for _ in range(self.options.online_steps):
            for k in range(self.n_networks):
                plan = self.runtime.move(self._online_plans.next(len(images), n_stream))
                learnt.append(self._run_online(images, targets, vectors, plan, k, train_norm, n_stream))
        first = learnt[0]  # before this step the batch was new
        self.vectors = self.to_keep(targets[:n_stream], first.logits[:n_stream])
        return first.loss if alone is None else alone

    def _online_step(
        self, images: Tensor, targets: Tensor, vectors: Tensor, plan: Tensor, network: int, train_norm: bool,
        n_stream: int,
    ) -> Learnt:  # fmt: skip
        """One step on a batch; it tells the cross-entropy for Eq. 3, whatever loss it learns by."""
        model, calls = self.models[network], count()  # all calls see the same weights
        batch = OnlineBatch(*self._online_plans.applied(plan, images, targets), n_stream, vectors)

        def logits_of(part: Tensor) -> Tensor:
            return model.logits(part, train_norm and len(part) > 1, renew=next(calls) == 0)

        loss, logits = self.online_loss(batch, logits_of)
        model.step(loss)
        return Learnt(soft_cross_entropy(logits.detach(), batch.targets).mean(), logits.detach())

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
                self.begin_consolidation(memory)
            for epoch in range(start, epochs):
                self._epochs_left = epochs - epoch
                for model in self.models:
                    model.set_rate(self.memory_rate(epoch, epochs))
                self.memory_epoch(memory, epoch)
                yield epoch
        finally:  # also where the caller leaves before the last epoch
            self.end_consolidation(memory)

    def end_consolidation(self, memory: Samples) -> None:
        """Back to learning online, after the last epoch or before."""
        self._view_stock = []
        for model in self.models:
            model.restart_average()
            model.reset_optimiser(self.options.online_lr)

    def memory_epoch(self, memory: Samples, epoch: int) -> None:
        """One pass over the memory, by default a plain one; `epoch` counts from 0 in each consolidation."""
        self.plain_epoch(memory)

    # Hooks with defaults ---------------------------------------------------------------------------------------

    def optimiser(self) -> OptimiserMaker:
        return sgd(self.options)

    def memory_rate(self, epoch: int, epochs: int) -> float:
        """The learning rate of an epoch on the memory."""
        return SCHEDULES[self.options.schedule](epoch, epochs, self.options.lr)

    def begin_consolidation(self, memory: Samples) -> None:
        """Called before the first epoch; most methods need nothing."""
        return

    def on_candidates(self, pool: Samples, n_old: int) -> None:
        """Called before the sampler chooses among the memory's `n_old` samples and what came; most need nothing."""
        return

    def to_keep(self, targets: Tensor, logits: Tensor) -> Tensor | None:
        """Numbers for each class, (B, C), that the memory keeps as `vectors` with what it keeps of a stream batch."""
        return None

    def memory_targets(self, memory: Samples) -> Tensor:
        """What memory samples teach, (N, C)."""
        return self.one_hot(memory.labels)

    def replay_size(self, n_stream: int) -> int:
        """How many memory samples `observe` wants beside the next `n_stream` samples, if `replay` allows any."""
        return self.options.replay_size or self.options.batch_size

    @property
    def most_at_once(self) -> int:
        """How many stream samples it learns from together; a larger batch comes in parts, with as much to teach."""
        return LARGE * self.options.batch_size

    @property
    def steps(self) -> int:
        """Gradient steps on a stream batch."""
        return self.options.online_steps

    @property
    def fills_memory(self) -> bool:
        """Whether the sampler may choose from the stream batch that was observed last."""
        return True

    def online_loss(self, batch: OnlineBatch, logits_of: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """The loss of an online step, (), and the logits of its images, (N, C), in their order.

        `logits_of` is the network in training. It may be called for parts of the batch, each of which BatchNorm then
        sees by itself.
        """
        logits = logits_of(batch.images)
        return self._mean_loss(logits, batch.targets), logits

    def memory_view(self, images: Tensor) -> Tensor:
        """How memory training augments what it learns labels from."""
        return self.strong_view(images)

    def replay_view(self, images: Tensor) -> Tensor:
        """How memory samples are augmented that join stream batches."""
        return self.strong_view(images) if self.options.replay_view == "strong" else images

    def probabilities(self, logits_of: Callable[[int], Tensor]) -> Tensor:
        """What the networks predict together, (N, C), from the logits of each: here the first network's alone."""
        return logits_of(0).softmax(dim=1)

    def sample_losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss of each sample, (N,), online and in `plain_epoch`, from logits and soft targets, (N, C) each."""
        return soft_cross_entropy(logits, targets)

    # Pieces that the methods share -----------------------------------------------------------------------------

    @property
    def networks(self) -> list[Network]:
        return [model.network for model in self.models]

    def strong_view(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The strong augmentation, by the trainer's generator or by another."""
        return self.augmentation.strong(images, generator or self.generator)

    def one_hot(self, labels: Tensor) -> Tensor:
        return F.one_hot(labels, self.n_classes).float()

    def next_memory_view(self, memory: Samples) -> Tensor:
        """A fresh view of the whole memory, from a stock that is made for several epochs at once."""
        if not self._view_stock:
            wanted = max(1, min(augment.views_at_once(memory.images) // len(memory), self._epochs_left))
            views = self.memory_view(augment.repeated(memory.images, wanted))
            self._view_stock = list(views.split(len(memory)))
        return self._view_stock.pop()

    def batch_parts(self, n: int) -> list[Tensor]:
        """A random order of n rows in whole batches, (steps, size), on the host; then the rest, (1, size)."""
        order = torch.randperm(n, generator=self.generator)
        if n == 1:
            order = order.repeat(2)  # BatchNorm needs two rows
        return in_batches(order, self.options.batch_size, self.options.last_batch == "trained")

    def plain_epoch(
        self, memory: Samples, targets: Tensor | None = None, network: int = 0, entropy_weight: float = 0.0
    ) -> None:
        """`sample_losses` on augmented views of the whole memory, mixed; sure predictions may be penalised."""
        self.run_epoch(self._plain_step, memory, targets, network, entropy_weight)

    def _plain_step(self, row: Tensor, n: int, network: int, entropy_weight: float) -> None:
        images, targets = self.mixed_batch(row, n)
        logits = self.models[network].logits(images)
        loss = self._mean_loss(logits, targets)
        self.models[network].step(loss + entropy_weight * negative_entropy(logits) if entropy_weight else loss)

    def _mean_loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        losses, expected = self.sample_losses(logits, targets), logits.shape[:1]
        if losses.shape != expected:
            found = f"{tuple(expected)}, but returned {tuple(losses.shape)}"
            raise ValueError(f"sample_losses should return the loss of each sample, of shape {found}")
        return losses.mean()

    def run_epoch(
        self, step: Callable[..., None], memory: Samples, targets: Tensor | None = None, *static: object
    ) -> None:
        """`step(row, n, *static)` over the memory in batches of n, captured; `mixed_batch` gives its images."""
        self.buffers.put("views", self.next_memory_view(memory))
        self.buffers.put("targets", self.memory_targets(memory) if targets is None else targets)
        for rows in self.batch_parts(len(memory)):
            steps, n = rows.shape
            mixing = self.augmentation.mixing_plan(steps, n, self.options.cutmix, self.generator)
            self.run_plan(step, torch.cat([rows, mixing], dim=1), n, *static)

    def mixed_batch(self, row: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """Images and targets of a step of `run_epoch`, mixed."""
        images, targets = self.buffers["views"][row[:n]], self.buffers["targets"][row[:n]]
        return self.augmentation.mix(images, row[n:]), self.augmentation.share(targets, row[n:])

    def run_plan(self, step: Callable[..., None], plan: Tensor, *static: object) -> None:
        """`step(row, *static)` for each row of a plan, by the `PlanRunner` of the step."""
        if step.__name__ not in self._runners:
            self._runners[step.__name__] = PlanRunner(self.runtime, step, self.buffers, *self.models)
        self._runners[step.__name__](plan, *static)

    # Growth and state ------------------------------------------------------------------------------------------

    def grow(self, n_classes: int) -> None:
        """Room for more classes; the optimisers start afresh because their parameters changed shape."""
        self.n_classes = n_classes
        for model in self.models:
            model.grow(n_classes, self.generator)

    def drop_class(self, number: int) -> None:
        """Remove an output; the classes after it get the next smaller id."""
        self.n_classes -= 1
        self.sets = None  # its guesses are of the ids before
        for model in self.models:
            model.drop_class(number)

    def state(self) -> dict[str, Tensor]:
        """All tensors that the future depends on, between two moves or two epochs of a consolidation."""
        tensors: dict[str, Tensor] = {}
        for k, model in enumerate(self.models):
            tensors |= model.state(k)
        if self._online_plans.stock is not None and len(self._online_plans.stock):
            tensors["online_plans"] = self._online_plans.stock
        if self._view_stock:
            tensors["view_stock"] = torch.stack(self._view_stock)
        tensors |= {name: self.buffers[name] for name in self.saved_buffers if name in self.buffers}
        if self.sets is not None:
            tensors |= {f"sets.{name}": value for name, value in self.sets._asdict().items()}
        return tensors

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        for k, model in enumerate(self.models):
            model.load_state(k, tensors)
        self._online_plans.load(tensors.get("online_plans"))
        stock = tensors.get("view_stock")
        self._view_stock = [] if stock is None else list(self.runtime.move(stock).unbind())
        for name in self.saved_buffers:
            if name in tensors:
                self.buffers.put(name, self.runtime.move(tensors[name]))
        sets = {k.removeprefix("sets."): v for k, v in tensors.items() if k.startswith("sets.")}
        self.sets = Sets(**sets) if sets else None

"""What a trainer is: networks and optimisers with two moves, a step on a stream batch and an epoch on the memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver import augment
from puridiver.equations import soft_cross_entropy
from puridiver.nets import Network, NetworkSettings, Outputs, build_network
from puridiver.recipes import Options
from puridiver.runtime import Runtime
from puridiver.samples import Samples
from puridiver.trainers.schedule import SCHEDULES
from puridiver.trainers.split import Split

# Images of one forward pass without gradients. Bounds memory; larger chunks are not faster on a CPU.
INFERENCE_CHUNK = {"cpu": 256, "cuda": 2048}


@dataclass(frozen=True)
class NoiseHint:
    """What a user may tell a trainer about the noise: its kind ("sym" or "asym") and its rate. Never needed."""

    kind: str
    rate: float


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
    """Base of every trainer. A subclass writes `memory_epoch`; two-network methods set `n_networks`."""

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    n_networks: ClassVar[int] = 1

    def __init__(self, context: TrainerContext) -> None:
        self.context, self.options = context, context.options
        self.runtime, self.generator = context.runtime, context.generator
        self.n_classes = context.n_classes
        o = context.options
        settings = NetworkSettings(o.head, o.block_relu, o.batchnorm_epsilon)
        self.views = augment.ViewSettings(o.crop_padding, o.flip, o.strong)
        # One scaling for every source: a stream's own statistics are not known before it has passed.
        channels = context.image_shape[2]
        self._mean = torch.full((channels,), 0.5, device=self.runtime.device)
        self._std = torch.full((channels,), 0.25, device=self.runtime.device)
        self.networks: list[Network] = []
        for _ in range(self.n_networks):
            net = build_network(context.network, self.n_classes, context.image_shape, settings, self.generator)
            self.networks.append(self.runtime.place(net))  # type: ignore[arg-type]
        self.optimisers = self._new_optimisers(o.online_lr)
        self.split: Split | None = None  # how the last epoch divided the memory, for audits and metrics

    # The two moves ---------------------------------------------------------------------------------------------

    def observe(
        self, images: Tensor, labels: Tensor, replay: Samples | None = None, freeze_norm: bool = False
    ) -> Tensor:
        """One online step (`online_steps` of them) on a stream batch, joined by replayed memory samples.

        Returns the batch's training loss for Eq. 3, (): of the stream samples or of the mixed batch (row 3).
        """
        first_losses = [self._online_step(k, images, labels, replay, freeze_norm) for k in range(self.n_networks)]
        for _ in range(self.options.online_steps - 1):
            for k in range(self.n_networks):
                self._online_step(k, images, labels, replay, freeze_norm)
        return first_losses[0]  # of the step before which the batch was new

    def consolidate(self, memory: Samples, epochs: int) -> Iterator[int]:
        """Train on the memory, yielding after every epoch; a fresh optimiser at the start and for what follows."""
        self.optimisers = self._new_optimisers(self.options.lr)
        self.begin_consolidation(memory)
        for epoch in range(epochs):
            self._set_rate(SCHEDULES[self.options.schedule](epoch, epochs, self.options.lr))
            self.memory_epoch(memory, epoch)
            yield epoch
        self.optimisers = self._new_optimisers(self.options.online_lr)

    def begin_consolidation(self, memory: Samples) -> None:
        """A hook before the first epoch; most methods need none."""
        return

    @abstractmethod
    def memory_epoch(self, memory: Samples, epoch: int) -> None:
        """One pass over the memory; `epoch` counts from 0 in each consolidation."""

    # Looking through the network -------------------------------------------------------------------------------

    @torch.no_grad()
    def outputs(self, images: Tensor, network: int = 0) -> Outputs:
        """Features and logits of uint8 images, without augmentation, BatchNorm at its running statistics."""
        net = self.networks[network].eval()
        chunks = images.split(INFERENCE_CHUNK[self.runtime.device.type])
        parts = [net.outputs(self.to_float(chunk)) for chunk in chunks]
        return Outputs(torch.cat([p.features for p in parts]), torch.cat([p.logits for p in parts]))

    def probabilities(self, images: Tensor) -> Tensor:
        """What the trainer predicts, (N, C): the first network, unless a method says otherwise."""
        return self.outputs(images).logits.softmax(dim=1)

    @property
    def class_weights(self) -> Tensor:
        return self.networks[0].class_weights.detach()

    def strong_view(self, images: Tensor) -> Tensor:
        return augment.strong_view(images, self.views, self.generator)

    def weak_view(self, images: Tensor) -> Tensor:
        return augment.weak_view(images, self.views, self.generator)

    def to_float(self, images: Tensor) -> Tensor:
        scaled = augment.to_float(images, self._mean, self._std)
        return scaled.contiguous(memory_format=torch.channels_last)

    # Pieces that the methods share -----------------------------------------------------------------------------

    def batches(self, n: int, size: int | None = None) -> list[Tensor]:
        """A random order of n rows in batches of equal size; a rest that fills no batch waits for the next epoch."""
        order = torch.randperm(n, generator=self.generator)
        size = min(size or self.options.batch_size, n)
        if n == 1:
            order, size = order.repeat(2), 2  # BatchNorm needs two rows
        steps = max(1, len(order) // size)
        return list(order[: steps * size].view(steps, size).to(self.runtime.device, non_blocking=True))

    def one_hot(self, labels: Tensor) -> Tensor:
        return F.one_hot(labels, self.n_classes).float()

    def plain_epoch(self, memory: Samples, targets: Tensor | None = None, network: int = 0) -> None:
        """Cross-entropy on augmented views of the whole memory, with CutMix."""
        targets = self.one_hot(memory.labels) if targets is None else targets
        views = self.strong_view(memory.images)
        for rows in self.batches(len(memory)):
            self.step(network, self.losses(network, views[rows], targets[rows], self.options.cutmix).mean())

    def maybe_cutmix(self, images: Tensor, targets: Tensor, probability: float) -> tuple[Tensor, Tensor]:
        """CutMix of float images and soft targets, with the given probability."""
        wanted = float(torch.rand((), generator=self.generator)) < probability
        if not wanted or len(images) < 2:
            return images, targets
        draw = augment.draw_cutmix(len(images), images.shape[2], images.shape[3], 1.0, self.generator)
        partner = draw.permutation.to(targets.device, non_blocking=True)
        return augment.cutmix(images, draw), draw.lam * targets + (1 - draw.lam) * targets[partner]

    def losses(self, network: int, images: Tensor, targets: Tensor, cutmix: float) -> Tensor:
        """Training losses of uint8 images, one each."""
        mixed, mixed_targets = self.maybe_cutmix(self.to_float(images), targets, cutmix)
        logits = self.networks[network].train()(mixed)
        return soft_cross_entropy(logits.float(), mixed_targets)

    def step(self, network: int, loss: Tensor) -> None:
        optimiser = self.optimisers[network]
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()

    def _online_step(
        self, network: int, images: Tensor, labels: Tensor, replay: Samples | None, freeze_norm: bool
    ) -> Tensor:
        everything, targets = images, self.one_hot(labels)
        if replay is not None:
            everything = torch.cat([images, self.strong_view(replay.images)])
            targets = torch.cat([targets, self.one_hot(replay.labels)])
        x, mixed_targets = self.maybe_cutmix(self.to_float(everything), targets, self.options.online_cutmix)
        untouched = replay is None and mixed_targets is targets
        if self.options.alpha_loss == "mixed" or untouched or network:
            stream_loss = None
        else:  # the training pass sees the stream samples mixed with others: Eq. 3 needs a look at them alone
            stream_loss = F.cross_entropy(self.outputs(images).logits.float(), labels)
        net = self.networks[network].train(not freeze_norm and len(everything) > 1)
        loss = soft_cross_entropy(net(x).float(), mixed_targets).mean()
        self.step(network, loss)
        return loss.detach() if stream_loss is None else stream_loss

    def _new_optimisers(self, lr: float) -> list[torch.optim.Optimizer]:
        o = self.options
        return [
            torch.optim.SGD(
                net.parameters(), lr=lr, momentum=o.momentum, weight_decay=o.weight_decay, nesterov=o.momentum > 0
            )
            for net in self.networks
        ]

    def _set_rate(self, lr: float) -> None:
        for optimiser in self.optimisers:
            optimiser.param_groups[0]["lr"] = lr

    # Growth and state ------------------------------------------------------------------------------------------

    def grow(self, n_classes: int) -> None:
        """Room for more classes; the optimisers start afresh because their parameters changed shape."""
        self.n_classes = n_classes
        for net in self.networks:
            net.head.grow(n_classes, self.generator)
            self.runtime.place(net)
        self.optimisers = self._new_optimisers(self.options.online_lr)

    def state(self) -> dict[str, Tensor]:
        """All tensors that the future depends on, between two moves."""
        tensors: dict[str, Tensor] = {}
        for k, net in enumerate(self.networks):
            tensors |= {f"network{k}.{name}": value for name, value in net.state_dict().items()}
        for k, optimiser in enumerate(self.optimisers):
            for index, entry in optimiser.state_dict()["state"].items():
                tensors[f"momentum{k}.{index}"] = entry["momentum_buffer"]
        return tensors

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        for k, net in enumerate(self.networks):
            prefix = f"network{k}."
            net.load_state_dict({n.removeprefix(prefix): v for n, v in tensors.items() if n.startswith(prefix)})
        for k, optimiser in enumerate(self.optimisers):
            prefix = f"momentum{k}."
            for name, value in tensors.items():
                if name.startswith(prefix):
                    parameter = optimiser.param_groups[0]["params"][int(name.removeprefix(prefix))]
                    optimiser.state[parameter]["momentum_buffer"] = value.to(parameter.device)

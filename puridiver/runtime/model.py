"""A network with its optimiser at the run's precision: what the trainers' steps are made of."""

from __future__ import annotations

import contextlib
import copy
import logging
from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor
from torch.func import functional_call

from puridiver.nets import Network, Outputs
from puridiver.options import Options
from puridiver.runtime.device import Runtime
from puridiver.runtime.plans import Captured
from puridiver.runtime.snapshots import MovingAverage, Snapshot

logger = logging.getLogger(__name__)

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
# An optimiser of some parameters whose rate is a tensor, which may change while captured steps refer to it.
OptimiserMaker = Callable[[Iterable[Tensor], Tensor], torch.optim.Optimizer]
OPTIMISER_STATE = ("momentum_buffer", "step", "exp_avg", "exp_avg_sq")  # of SGD and of Adam

# Images of one forward pass without gradients. Bounds memory; larger passes are not faster on a CPU, and on an H200
# (ResNet-18: 3.8, 3.7, 3.5 and 3.4 µs an image at 500, 620, 1,032 and 2,064) not by much. 520 takes memory and batch of
# the CIFAR-10 protocol at once, and 10,000 test images in parts of 500, a shape that the memory has captured already.
# With 1,280 for every pass a run held 3.9 GB of the GPU's memory; with 640, some commits before, 2.65.
USUAL_PASS = {"cpu": 256, "cuda": 520}
LARGE_PASS = {"cpu": 256, "cuda": 1280}
SMALLEST_PASS = 16


def sgd(options: Options) -> OptimiserMaker:
    def make(parameters: Iterable[Tensor], rate: Tensor) -> torch.optim.Optimizer:
        return torch.optim.SGD(
            parameters, lr=rate, momentum=options.momentum, weight_decay=options.weight_decay,
            nesterov=options.momentum > 0, fused=rate.is_cuda,
        )  # fmt: skip

    return make


def adam() -> OptimiserMaker:
    def make(parameters: Iterable[Tensor], rate: Tensor) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, lr=rate, fused=rate.is_cuda, capturable=rate.is_cuda)

    return make


class TrainableModel:
    """One network in training.

    Under bfloat16 the convolutions use bfloat16 copies of their weights, renewed in one multi-tensor kernel before
    each pass, while the weights proper, BatchNorm, the head and the optimiser stay in float32. (torch.autocast does
    the same with a kernel for each weight in each direction.) A network from outside the package may have anything in
    it, and runs under torch.autocast.
    The optimiser is never rebuilt but reset in place: captured steps refer to its buffers and its rate.

    With an `average` (its decay; 0: none) inference sees the moving average of the weights over the last online steps,
    until `leave_average`.
    """

    def __init__(
        self,
        network: Network,
        runtime: Runtime,
        optimiser: OptimiserMaker,
        clip: float | None = None,
        average: float = 0.0,
    ) -> None:
        self.network, self.runtime, self.clip = network, runtime, clip  # clip: the largest entry of a gradient
        self._make_optimiser, self._decay = optimiser, average
        self.average: MovingAverage | None = None
        self.through_average = average > 0
        self.generation = 0  # changes when tensors that captured steps refer to were replaced
        self._build()

    def _build(self) -> None:
        self.runtime.place(self.network)
        self.rate = torch.zeros((), device=self.runtime.device)
        self.optimiser = self._make_optimiser(self.network.parameters(), self.rate)
        self.shadows: dict[str, Tensor] = {}
        self._masters: list[Tensor] = []
        self.dtype = DTYPES[self.runtime.precision]
        self._autocast = self.dtype != torch.float32 and not self.network.is_own()
        if self.dtype != torch.float32 and self.network.is_own():
            for name, parameter in self.network.named_parameters():
                if parameter.ndim == 4:
                    self.shadows[name] = parameter.detach().to(self.dtype).requires_grad_()
                    self._masters.append(parameter)
        named = [*self.network.named_parameters(), *self.network.named_buffers()]
        self._live = {name: value.detach() for name, value in named if value.is_floating_point()}
        older, self.average = self.average, MovingAverage(self._live, self._decay) if self._decay else None
        if older is not None and self.average is not None:
            self.average.inherit(older)
        # Modules without weights of their own, into which `functional_call` puts those of a snapshot for one pass. A
        # thread takes one for its pass; the first is only copied.
        self._structure = _structure_of(self.network)
        self._idle = [_structure_of(self._structure)]
        self.generation += 1

    # Passes ----------------------------------------------------------------------------------------------------

    def logits(self, x: Tensor, train_norm: bool = True) -> Tensor:
        """Logits with gradients, float32; BatchNorm by the batch, or by its running statistics."""
        self.network.train(train_norm)
        if not self.shadows:
            with self._precision() if self._autocast else contextlib.nullcontext():
                return self.network(x).float()
        self._renew_shadows(self._masters)
        return functional_call(self.network, self.shadows, (x.to(self.dtype),))

    def training_outputs(self, x: Tensor) -> Outputs:
        """Features and logits with gradients, BatchNorm by the batch."""
        self.network.train(True)
        if not self.shadows:
            return self.network(x, with_features=True)
        self._renew_shadows(self._masters)
        return functional_call(self.network, self.shadows, (x.to(self.dtype),), {"with_features": True})

    @torch.no_grad()
    def outputs(self, x: Tensor, snapshot: Snapshot | None = None) -> Outputs:
        """Features and logits without gradients, BatchNorm by its running statistics.

        By a snapshot, or by the network as it is. On a CPU any thread may read a snapshot, whatever happens to the
        network meanwhile.
        """
        weights = self.seen if snapshot is None else snapshot.tensors
        if self.shadows:
            self._renew_shadows([weights[name] for name in self.shadows])
            weights, x = {**weights, **self.shadows}, x.to(self.dtype)
        if snapshot is None or self.runtime.device.type != "cpu":
            self.network.eval()
            found = self._pass(self.network, weights, x)
        else:
            idle, structure = self._idle, self._structure
            try:
                network = idle.pop()
            except IndexError:  # other threads have them all
                network = _structure_of(structure)
            found = self._pass(network, weights, x)
            idle.append(network)
        return Outputs(found.features.float(), found.logits.float())

    def _pass(self, network: Network, weights: dict[str, Tensor], x: Tensor) -> Outputs:
        with self._precision() if self._autocast else contextlib.nullcontext():
            if weights is self._live:
                return network.outputs(x)
            return functional_call(network, weights, (x,), {"with_features": True})

    def _precision(self) -> contextlib.AbstractContextManager[object]:
        # No cache: weights cast in one captured step would be those of all that follow.
        return torch.autocast(self.runtime.device.type, self.dtype, cache_enabled=False)

    @torch.no_grad()
    def _renew_shadows(self, masters: list[Tensor]) -> None:
        torch._foreach_copy_(list(self.shadows.values()), masters)

    def step(self, loss: Tensor) -> None:
        """One optimiser step down the gradient of the loss."""
        self.optimiser.zero_grad(set_to_none=True)
        for shadow in self.shadows.values():
            shadow.grad = None
        loss.backward()
        if self.shadows:
            found = [shadow.grad for shadow in self.shadows.values() if shadow.grad is not None]
            grads = [torch.empty_like(master) for master in self._masters]
            torch._foreach_copy_(grads, found)
            for master, grad in zip(self._masters, grads, strict=True):
                master.grad = grad
        if self.clip is not None:
            torch.nn.utils.clip_grad_value_(self.network.parameters(), self.clip)
        self.optimiser.step()

    # What inference sees ---------------------------------------------------------------------------------------

    @property
    def seen(self) -> dict[str, Tensor]:
        """The weights and statistics that inference sees: the network's, or their moving average."""
        return self.average.tensors if self.average is not None and self.through_average else self._live

    @property
    def class_weights(self) -> Tensor:
        """The classifier's weights as inference sees them, (C, d)."""
        return self.seen["head.linear.weight"]

    @torch.no_grad()
    def snapshot(self, older: Snapshot | None = None) -> Snapshot:
        """What inference sees now. On a GPU it takes the place of the older snapshot that it replaces."""
        if older is not None and self.runtime.device.type != "cpu" and older.fits(self._live):
            older.renew(self.seen)
            return older
        return Snapshot({name: value.clone() for name, value in self.seen.items()})

    def loaded_snapshot(self, tensors: Mapping[str, Tensor]) -> Snapshot:
        """A snapshot that was saved, in the layout of the weights; it may know fewer classes than the network."""
        found: dict[str, Tensor] = {}
        for name, mine in self._live.items():
            saved = self.runtime.move(tensors[name])
            found[name] = torch.empty_like(mine).copy_(saved) if mine.shape == saved.shape else saved.clone()
        return Snapshot(found)

    @torch.no_grad()
    def follow(self) -> None:
        """Let the average follow, after an online step."""
        if self.average is not None:
            self.average.follow()

    @torch.no_grad()
    def leave_average(self) -> None:
        """Go on from the average; inference sees the network itself from now on."""
        if self.average is not None and self.through_average:
            self.average.take_over()
        self.through_average = False

    @torch.no_grad()
    def restart_average(self) -> None:
        """Average anew, from the network as it is."""
        if self.average is not None:
            self.average.restart()
            self.through_average = True

    # Optimiser, growth and state -------------------------------------------------------------------------------

    def set_rate(self, rate: float) -> None:
        self.rate.fill_(rate)

    @torch.no_grad()
    def reset_optimiser(self, rate: float) -> None:
        """As if the optimiser were new."""
        self.set_rate(rate)
        for state in self.optimiser.state.values():
            for value in state.values():
                value.zero_()

    def grow(self, n_classes: int, generator: torch.Generator) -> None:
        self.network.head.grow(n_classes, generator)
        rate = float(self.rate)
        self._build()
        self.set_rate(rate)

    def state(self, number: int) -> dict[str, Tensor]:
        """Weights, statistics and the optimiser's buffers, under names that carry the network's number."""
        tensors = {f"network{number}.{name}": value for name, value in self.network.state_dict().items()}
        for name, parameter in self.network.named_parameters():
            for key, value in self.optimiser.state.get(parameter, {}).items():
                tensors[f"{key}{number}.{name}"] = value
        if self.average is not None and self.through_average:
            tensors |= {f"average{number}.{name}": value for name, value in self.average.tensors.items()}
        return tensors

    def load_state(self, number: int, tensors: dict[str, Tensor]) -> None:
        weights = f"network{number}."
        self.network.load_state_dict({k.removeprefix(weights): v for k, v in tensors.items() if k.startswith(weights)})
        for name, parameter in self.network.named_parameters():
            for key in OPTIMISER_STATE:
                if (value := tensors.get(f"{key}{number}.{name}")) is None:
                    continue
                # preserve_format keeps the layout of the weight, which the optimiser's kernels expect
                like = parameter if value.shape == parameter.shape else self.rate  # Adam's count has no shape
                self.optimiser.state[parameter][key] = torch.empty_like(like, requires_grad=False).copy_(value)
        if self.average is not None:  # saved only while inference sees it
            self.through_average = f"average{number}.head.linear.weight" in tensors
            if self.through_average:
                for name, mine in self.average.tensors.items():
                    mine.copy_(tensors[f"average{number}.{name}"])
        self.generation += 1


def _structure_of(network: Network) -> Network:
    """A copy of a network's modules that shares its tensors, in eval mode."""
    shared = {id(tensor): tensor for tensor in (*network.parameters(), *network.buffers())}
    return copy.deepcopy(network, shared).eval()


class Inference:
    """Features and logits of uint8 images by one network, in passes of bounded size.

    Passes get smaller once the GPU's memory did not suffice. `to_float` turns uint8 images to what the network takes.
    """

    def __init__(self, model: TrainableModel, to_float: Callable[[Tensor], Tensor]) -> None:
        self.model, self.to_float = model, to_float
        self._pass = Captured(model.runtime, self._forward, copies=True)
        self._shrunk = 1  # by how much passes are smaller than usual

    def __call__(self, images: Tensor, snapshot: Snapshot | None = None, large_passes: bool = False) -> Outputs:
        device = self.model.runtime.device.type
        usual = (LARGE_PASS if large_passes else USUAL_PASS)[device]
        if device == "cpu" and 0 < len(images) <= usual:
            return self.model.outputs(self.to_float(images), snapshot)
        while True:
            most = max(1, min(len(images), max(SMALLEST_PASS, usual // self._shrunk)))
            try:
                return self._in_passes(images, snapshot, most)
            except torch.OutOfMemoryError:
                if most <= SMALLEST_PASS:
                    raise
            while usual // self._shrunk >= most:
                self._shrunk *= 2
            fewer = max(SMALLEST_PASS, usual // self._shrunk)
            logger.warning("out of GPU memory: inference takes %d images at a time from now on", fewer)

    def _in_passes(self, images: Tensor, snapshot: Snapshot | None, most: int) -> Outputs:
        """In parts of at most so many images, of few different sizes: each size is a step to capture."""
        model, n_parts = self.model, max(1, -(-len(images) // most))
        version = (model.generation, model.through_average if snapshot is None else snapshot.number)
        parts = [
            self._pass(part, static=(snapshot,), version=version)
            for part in images.split(max(1, -(-len(images) // n_parts)))
        ]
        if len(parts) == 1:
            return parts[0]
        return Outputs(torch.cat([p.features for p in parts]), torch.cat([p.logits for p in parts]))

    def _forward(self, images: Tensor, snapshot: Snapshot | None) -> Outputs:
        return self.model.outputs(self.to_float(images), snapshot)

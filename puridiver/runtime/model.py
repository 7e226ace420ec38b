"""A network with its optimiser at the run's precision: what the trainers' steps are made of."""

import contextlib
import copy
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from puridiver.augment import to_float
from puridiver.nets import Network, Outputs, without_row
from puridiver.options import Options
from puridiver.runtime.device import Runtime
from puridiver.runtime.plans import captured
from puridiver.runtime.sgd import SGD

logger = logging.getLogger(__name__)

# An optimiser of groups of parameters. Rates are tensors, which may change while captured steps refer to them.
OptimiserMaker = Callable[[Iterable[Any], Tensor], torch.optim.Optimizer | SGD]
OPTIMISER_STATE = ("momentum_buffer", "step", "exp_avg", "exp_avg_sq")  # of SGD and of Adam

# Images of one forward pass without gradients. The activations of 48 small images stay in the cache of a CPU: in passes
# of 256 an image takes twice as long. On a GPU 520 takes memory and batch of the CIFAR-10 protocol at once, and 10,000
# test images in parts of 500, a shape that is captured already.
USUAL_PASS = {"cpu": 48, "cuda": 520}
LARGE_PASS = {"cpu": 48, "cuda": 1280}
SMALLEST_PASS = 16
AVERAGE_RAMP = 9  # steps: until then a moving average would mostly hold initial weights, so that it decays faster


def sgd(options: Options) -> OptimiserMaker:
    """Nesterov SGD: on a GPU torch's own, which has one kernel for it."""
    momentum, decay = options.momentum, options.weight_decay

    def make(groups: Iterable[Any], rate: Tensor) -> torch.optim.Optimizer | SGD:
        if not rate.is_cuda:
            return SGD(groups, momentum, decay)
        return torch.optim.SGD(groups, rate, momentum, weight_decay=decay, nesterov=momentum > 0, fused=True)

    return make


@dataclass(frozen=True, eq=False)
class Weights:
    """A network's weights and BatchNorm statistics at one moment. Nobody changes them, so any thread may read them.

    On a GPU, where captured passes refer to addresses, a snapshot may overwrite an older one; readers hold the lock.
    """

    tensors: dict[str, Tensor]

    def without_class(self, number: int) -> "Weights":
        """The same without an output; itself if it does not know the class."""
        return Weights(without_class(self.tensors, number))


class TrainableModel:
    """One network in training.

    Under bfloat16 the convolutions use bfloat16 copies of their weights, renewed in one kernel before each pass;
    everything else stays in float32. A network from outside the package may have anything in it, and runs under
    torch.autocast. The optimiser is reset in place: captured steps refer to its buffers and its rate.

    With a `decay` above 0, inference sees the exponential moving average of the weights and statistics over the last
    online steps, until `leave_average`. The average is steadier than the network while that learns from a stream.
    """

    def __init__(self, network: Network, runtime: Runtime, optimiser: OptimiserMaker, decay: float = 0.0) -> None:
        self.network, self.runtime, self.decay = network, runtime, decay
        self._make_optimiser = optimiser
        self.average: dict[str, Tensor] = {}  # empty: none
        self.through_average = decay > 0
        self.averaged = torch.zeros((), device=runtime.device)  # steps that the average has followed
        self.version = 0  # changes when tensors that captured steps refer to were replaced
        self._infer = captured(runtime, self._forward, self, copies=True)
        self._differentiate = captured(runtime, self._loss_gradient, self, copies=True)
        self._shrunk = 1  # by how much passes are smaller than usual, since the GPU's memory did not suffice
        self._build()

    def _build(self) -> None:
        self.runtime.place(self.network)
        groups: dict[float, list[Tensor]] = {1.0: []}
        for name, parameter in self.network.named_parameters():
            groups.setdefault(self.network.rate_share(name), []).append(parameter)
        self._rates = {share: torch.zeros((), device=self.runtime.device) for share in groups}
        self.rate = self._rates[1.0]
        grouped = [{"params": own, "lr": self._rates[share]} for share, own in groups.items()]
        self.optimiser = self._make_optimiser(grouped, self.rate)
        self.shadows: dict[str, Tensor] = {}
        self._masters: list[Tensor] = []
        self.dtype: torch.dtype = getattr(torch, self.runtime.precision)
        self._precision: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
        if self.dtype != torch.float32 and not self.network.is_own():
            # No cache: weights cast in one captured step would be those of all that follow.
            self._precision = partial(torch.autocast, self.runtime.device.type, self.dtype, cache_enabled=False)
        elif self.dtype != torch.float32:
            for name, parameter in self.network.named_parameters():
                if parameter.ndim == 4:
                    self.shadows[name] = parameter.detach().to(self.dtype).requires_grad_()
                    self._masters.append(parameter)
        named = (*self.network.named_parameters(), *self.network.named_buffers())
        self._live = {name: value.detach() for name, value in named if value.is_floating_point()}
        if self.decay:
            older, self.average = self.average, {name: value.clone() for name, value in self._live.items()}
            for name, value in older.items():  # of the network before it grew; rows of new classes are the network's
                self.average[name][slice(len(value)) if value.ndim else ...] = value
        # For inference, so that the network itself stays in training mode.
        self._structure = _structure_of(self.network)
        self._averaged = _structure_of(self.network, self.average) if self.decay else self._structure
        self._in_thread = _ThreadsOwn(self._structure)
        self.version += 1

    # Passes ----------------------------------------------------------------------------------------------------

    def logits(self, images: Tensor, train_norm: bool = True, renew: bool = True) -> Tensor:
        """Logits with gradients, float32, of uint8 images, or of floats that `to_float` has scaled.

        BatchNorm goes by the batch, or by its running statistics. A second pass before the same step does not `renew`
        the copies of the weights: the first one's gradient needs them as they are.
        """
        x = to_float(images) if images.dtype == torch.uint8 else images
        _in_mode(self.network, train_norm)
        if not self.shadows:
            with self._precision():
                return self.network(x).logits.float()
        if renew:
            self._renew_shadows(self._masters)
        found: Outputs = functional_call(self.network, self.shadows, (x.to(self.dtype),))
        return found.logits

    def outputs(
        self, images: Tensor, snapshot: Weights | None = None, large_passes: bool = False, live: bool = False
    ) -> Outputs:
        """Features and logits of uint8 images without gradients, BatchNorm by its running statistics.

        By a snapshot, or by what inference sees now, or by the network itself (`live`). On a CPU any thread may read a
        snapshot, whatever happens to the network meanwhile. Images go in passes of bounded size; `large_passes` takes
        more at once on a GPU, for callers that ask for thousands at every batch. Passes get smaller once the GPU's
        memory did not suffice.
        """
        usual = (LARGE_PASS if large_passes else USUAL_PASS)[self.runtime.device.type]
        averaged = snapshot is None and self.through_average and not live
        while True:
            most = max(SMALLEST_PASS, usual // self._shrunk)
            n_parts = max(1, -(-len(images) // most))  # of few different sizes: each size is a step to capture
            try:
                if n_parts == 1:
                    return self._infer(images, snapshot, averaged)
                parts = [self._infer(part, snapshot, averaged) for part in images.split(-(-len(images) // n_parts))]
                return Outputs(*map(torch.cat, zip(*parts, strict=True)))
            except torch.OutOfMemoryError:
                if most == SMALLEST_PASS:
                    raise
            self._shrunk *= 2
            logger.warning("out of GPU memory: inference takes %d images at a time from now on", most // 2)

    @torch.no_grad()
    def _forward(self, images: Tensor, snapshot: Weights | None, averaged: bool) -> Outputs:
        """One pass, by a snapshot, by the average or by the network: each is a step of its own to capture."""
        own, network = (self.average, self._averaged) if averaged else (self._live, self._structure)
        weights, x = own if snapshot is None else snapshot.tensors, to_float(images)
        if self.shadows:
            self._renew_shadows([weights[name] for name in self.shadows])
            weights, x = {**weights, **self.shadows}, x.to(self.dtype)
        if snapshot is not None and self.runtime.device.type == "cpu":
            network = self._in_thread.network
        network = _in_mode(network, train_norm=False)
        with self._precision():
            found = network(x) if weights is own else functional_call(network, weights, (x,))
        return Outputs(found.features.float(), found.logits.float())

    @torch.no_grad()
    def _renew_shadows(self, masters: list[Tensor]) -> None:
        torch._foreach_copy_(list(self.shadows.values()), masters)

    def step(self, loss: Tensor) -> None:
        """One optimiser step down the gradient of the loss: the only place where weights change."""
        self.optimiser.zero_grad()
        for shadow in self.shadows.values():
            shadow.grad = None
        loss.backward()
        if self.shadows:
            found = [shadow.grad for shadow in self.shadows.values() if shadow.grad is not None]
            grads = [torch.empty_like(master) for master in self._masters]
            torch._foreach_copy_(grads, found)
            for master, grad in zip(self._masters, grads, strict=True):
                master.grad = grad
        self.optimiser.step()
        if self.through_average:
            self.averaged += 1
            weight = (AVERAGE_RAMP / (AVERAGE_RAMP + self.averaged)).clamp(min=1 - self.decay)
            torch._foreach_lerp_(list(self.average.values()), list(self._live.values()), [weight] * len(self.average))

    def gradients(self, loss: Tensor) -> list[Tensor]:
        """The gradient of a loss for each parameter, in their order, float32; no weight changes."""
        leaves = [self.shadows.get(name, parameter) for name, parameter in self.network.named_parameters()]
        return [grad.float() for grad in torch.autograd.grad(loss, leaves, materialize_grads=True)]

    def gradient(self, images: Tensor, labels: Tensor) -> Tensor:
        """The gradient of the images' mean cross-entropy as one vector, (P,); BatchNorm by its running statistics."""
        return self._differentiate(images, labels)

    def _loss_gradient(self, images: Tensor, labels: Tensor) -> Tensor:
        loss = F.cross_entropy(self.logits(images, train_norm=False), labels)
        return torch.cat([grad.flatten() for grad in self.gradients(loss)])

    # What inference sees ---------------------------------------------------------------------------------------

    @property
    def seen(self) -> dict[str, Tensor]:
        """The weights and statistics that inference sees: the network's, or their moving average."""
        return self.average if self.through_average else self._live

    @property
    def class_weights(self) -> Tensor:
        """The classifier's weights as inference sees them, (C, d)."""
        return self.seen["head.linear.weight"]

    @torch.no_grad()
    def snapshot(self, older: Weights | None = None, live: bool = False) -> Weights:
        """What inference sees now, or the network itself (`live`).

        On a GPU it overwrites the older snapshot that it replaces, if shapes agree.
        """
        seen, on_cpu = self._live if live else self.seen, self.runtime.device.type == "cpu"
        if older is not None and not on_cpu and all(older.tensors[k].shape == seen[k].shape for k in seen):
            torch._foreach_copy_(list(older.tensors.values()), list(seen.values()))
            return older
        return Weights(dict(zip(seen, map(Tensor.clone, seen.values()), strict=True)))

    def loaded_snapshot(self, tensors: Mapping[str, Tensor]) -> Weights:
        """A snapshot that was saved, in the layout of the weights; it may know fewer classes than the network."""
        found: dict[str, Tensor] = {}
        n_classes = len(tensors["head.linear.weight"])
        for name, mine in self._live.items():
            saved, shape = self.runtime.move(tensors[name]), mine.shape
            if name.startswith("head.") and 0 < n_classes <= (len(mine) if shape else 0):
                shape = torch.Size((n_classes, *shape[1:]))
            if saved.shape != shape or saved.dtype != mine.dtype:
                raise ValueError(f"a snapshot's {name} should be {tuple(shape)}, but is {tuple(saved.shape)}")
            found[name] = torch.empty_like(mine).copy_(saved) if mine.shape == saved.shape else saved.clone()
        return Weights(found)

    def frozen(self, snapshot: Weights) -> Callable[[Tensor], Tensor]:
        """Logits of uint8 images by a snapshot, in a network of its own: any thread may call it at any time.

        No pass is captured, since other threads call it while the learner trains. On a GPU, where a later snapshot may
        overwrite this one, it copies the tensors.
        """
        own = {name: value.clone() if value.is_cuda else value for name, value in snapshot.tensors.items()}
        network = _structure_of(self._structure, own | {name: own[name].to(self.dtype) for name in self.shadows})
        dtype, precision = self.dtype if self.shadows else torch.float32, self._precision
        most = USUAL_PASS[self.runtime.device.type]

        @torch.no_grad()
        def logits(images: Tensor) -> Tensor:
            with precision():
                return torch.cat([network(to_float(part).to(dtype)).logits.float() for part in images.split(most)])

        return logits

    @torch.no_grad()
    def leave_average(self) -> None:
        """Go on from the average, which then stands still; inference sees the network itself from now on."""
        if self.through_average:
            torch._foreach_copy_(list(self._live.values()), list(self.average.values()))
        self.through_average = False

    @torch.no_grad()
    def restart_average(self) -> None:
        """Average anew, from the network as it is."""
        if self.decay:
            torch._foreach_copy_(list(self.average.values()), list(self._live.values()))
            self.through_average = True

    # Optimiser, growth and state -------------------------------------------------------------------------------

    def set_rate(self, rate: float) -> None:
        for share, own in self._rates.items():
            own.fill_(rate * share)

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

    def drop_class(self, number: int) -> None:
        """Remove an output; the optimiser starts afresh."""
        rate, self.average = float(self.rate), without_class(self.average, number)
        self.network.head.drop_class(number)
        self._build()
        self.set_rate(rate)

    @property
    def _role(self) -> str:
        """What the average is in a saved state: what predicts, or during memory training what did before it."""
        return "average" if self.through_average else "before"

    def state(self, number: int) -> dict[str, Tensor]:
        """Weights, statistics and the optimiser's buffers, under names that carry the network's number."""
        tensors = {f"network{number}.{name}": value for name, value in self.network.state_dict().items()}
        for name, parameter in self.network.named_parameters():
            for key, value in self.optimiser.state.get(parameter, {}).items():
                tensors[f"{key}{number}.{name}"] = value
        tensors |= {f"{self._role}{number}.{name}": value for name, value in self.average.items()}
        if self.decay:
            tensors[f"averaged{number}"] = self.averaged
        return tensors

    def load_state(self, number: int, tensors: dict[str, Tensor]) -> None:
        prefix, expected = f"network{number}.", self.network.state_dict()
        weights = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        for name in weights.keys() & expected.keys():
            if (found := weights[name].dtype) != (wanted := expected[name].dtype):
                raise ValueError(f"trainer.{prefix}{name} should be {wanted}, but is {found}")
        self.network.load_state_dict(weights)
        for name, parameter in self.network.named_parameters():
            for key in OPTIMISER_STATE:
                if (value := tensors.get(f"{key}{number}.{name}")) is None:
                    continue
                # preserve_format keeps the layout of the weight, which the optimiser's kernels expect
                like = parameter if value.shape == parameter.shape else self.rate  # Adam's count has no shape
                self.optimiser.state[parameter][key] = torch.empty_like(like, requires_grad=False).copy_(value)
        self.through_average = f"average{number}.head.linear.weight" in tensors
        if self.decay:
            self.averaged.copy_(tensors[f"averaged{number}"])
        for name, mine in self.average.items():
            mine.copy_(tensors[f"{self._role}{number}.{name}"])
        self.version += 1


def without_class(tensors: Mapping[str, Tensor], number: int) -> dict[str, Tensor]:
    """Weights and statistics of a network whose head loses a class; as they are if it does not know the class."""
    return {name: without_row(value, number) if name.startswith("head.") else value for name, value in tensors.items()}


def _in_mode(network: Network, train_norm: bool) -> Network:
    # To walk through all modules costs a small step a tenth of its time. Others' modules may switch by themselves.
    if network.training != train_norm or not network.is_own():
        network.train(train_norm)
    return network


class _ThreadsOwn(threading.local):
    """Modules for each thread, made when it first asks, into which `functional_call` puts the weights of a snapshot.

    They are copies of modules that nobody uses: the live network may be in a pass.
    """

    def __init__(self, unused: Network) -> None:
        self.network = _structure_of(unused)


def _structure_of(network: Network, weights: Mapping[str, Tensor] | None = None) -> Network:
    """A copy of a network's modules in eval mode, with these tensors by name; it shares the network's others."""
    named = (*network.named_parameters(), *network.named_buffers())
    return copy.deepcopy(network, {id(tensor): (weights or {}).get(name, tensor) for name, tensor in named}).eval()

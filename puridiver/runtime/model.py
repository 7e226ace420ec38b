"""A network with its optimiser at the run's precision: what the trainers' steps are made of."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor
from torch.func import functional_call

from puridiver.nets import Network, Outputs
from puridiver.options import Options
from puridiver.runtime.device import Runtime
from puridiver.runtime.snapshots import Average, Copy

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
# An optimiser of some parameters whose rate is a tensor, which may change while captured steps refer to it.
OptimiserMaker = Callable[[Iterable[Tensor], Tensor], torch.optim.Optimizer]


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


class Trainee:
    """One network in training.

    Under bfloat16 the convolutions use bfloat16 copies of their weights, renewed in one multi-tensor kernel before
    each pass, while the weights proper, BatchNorm, the head and the optimiser stay in float32. (torch.autocast does
    the same with a kernel for each weight in each direction.) A network from outside the package may have anything in
    it, and runs under torch.autocast.
    The optimiser is never rebuilt but reset in place: captured steps refer to its buffers and its rate.

    With an `average` (its decay; 0: none) whoever looks through the network sees the average of its weights over its
    last online steps, until `leave_average`. `keep` makes a copy of the weights under a name, to be looked through by
    `through`.
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
        self.average: Average | None = None
        self.through_average = average > 0
        self.copies: dict[str, Copy] = {}
        self._through: str | None = None  # the copy that is looked through
        self._outgrown: set[str] = set()  # copies of before the network grew
        self._made: dict[str, int] = {}  # the number of each copy: each was made at addresses of its own
        self._n_made = 0
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
        older, self.average = self.average, Average(self.network, self._decay) if self._decay else None
        if older is not None and self.average is not None:
            self.average.inherit(older)
        self.generation += 1

    # Passes ----------------------------------------------------------------------------------------------------

    def logits(self, x: Tensor, train_norm: bool = True) -> Tensor:
        """Logits with gradients, float32; BatchNorm by the batch, or by its running statistics."""
        self.network.train(train_norm)
        if not self.shadows:
            with self._precision():
                return self.network(x).float()
        self._renew_shadows(self._masters)
        return functional_call(self.network, self.shadows, (x.to(self.dtype),))

    @torch.no_grad()
    def outputs(self, x: Tensor) -> Outputs:
        """Features and logits without gradients, BatchNorm by its running statistics."""
        self.network.eval()
        weights = self._seen_weights()
        if self.shadows:
            self._renew_shadows([weights[name] for name in self.shadows] if weights else self._masters)
            weights, x = {**weights, **self.shadows}, x.to(self.dtype)
        with self._precision():
            if not weights:
                seen = self.network.outputs(x)
            else:
                seen = functional_call(self.network, weights, (x,), {"with_features": True})
        return Outputs(seen.features.float(), seen.logits.float())

    def _precision(self) -> contextlib.AbstractContextManager[object]:
        if not self._autocast:
            return contextlib.nullcontext()
        # No cache: weights cast in one captured step would be those of all that follow.
        return torch.autocast(self.runtime.device.type, self.dtype, cache_enabled=False)

    @property
    def class_weights(self) -> Tensor:
        """The classifier's weights as whoever looks sees them, (C, d)."""
        weights = self._seen_weights()
        return weights["head.linear.weight"] if weights else self.network.class_weights.detach()

    @property
    def view(self) -> tuple[int, bool, int]:
        """Changes whenever `outputs` reads other tensors than before."""
        return self.generation, self.through_average, self._made[self._through] if self._through else 0

    def _seen_weights(self) -> dict[str, Tensor]:
        """What stands in the place of the network's own weights for whoever looks."""
        if self._through is not None:
            return self.copies[self._through].held
        return self.average.held if self.average is not None and self.through_average else {}

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

    # Optimiser -------------------------------------------------------------------------------------------------

    def set_rate(self, rate: float) -> None:
        self.rate.fill_(rate)

    @torch.no_grad()
    def reset_optimiser(self, rate: float) -> None:
        """As if the optimiser were new."""
        self.set_rate(rate)
        for state in self.optimiser.state.values():
            for value in state.values():
                value.zero_()

    # Copies ----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def keep(self, name: str) -> None:
        """Keep a copy of the weights as they are now, in the place of an older one of that name."""
        if name in self.copies and name not in self._outgrown:
            self.copies[name].restart()
            return
        self._n_made += 1
        self.copies[name], self._made[name] = Copy(self.network), self._n_made
        self._outgrown.discard(name)

    def rename(self, name: str, new_name: str) -> None:
        """Give a copy the name, and so the place, of another."""
        self.forget(new_name)
        if name in self._outgrown:
            self._outgrown.add(new_name)
        self.copies[new_name], self._made[new_name] = self.copies[name], self._made[name]
        self.forget(name)

    def forget(self, name: str) -> None:
        """Keep that copy no longer, if there is one."""
        self.copies.pop(name, None)
        self._made.pop(name, None)
        self._outgrown.discard(name)

    @contextlib.contextmanager
    def through(self, name: str) -> Iterator[None]:
        """Whoever looks meanwhile sees that copy; one of before the network grew knows only the classes of then."""
        self._through = name
        try:
            yield
        finally:
            self._through = None

    @torch.no_grad()
    def follow(self) -> None:
        """Let the average follow, after an online step."""
        if self.average is not None:
            self.average.follow()

    @torch.no_grad()
    def leave_average(self) -> None:
        """Go on from the average, and look through the network itself from now on."""
        if self.average is not None and self.through_average:
            self.average.take_over()
        self.through_average = False

    @torch.no_grad()
    def restart_average(self) -> None:
        """Average anew, from the network as it is."""
        if self.average is not None:
            self.average.restart()
            self.through_average = True

    # Growth and state ------------------------------------------------------------------------------------------

    def grow(self, n_classes: int, generator: torch.Generator) -> None:
        self.network.head.grow(n_classes, generator)
        rate = float(self.rate)
        self._build()
        self.set_rate(rate)
        self._outgrown |= self.copies.keys()

    def state(self, number: int, copies: Iterable[str] = ()) -> dict[str, Tensor]:
        """Weights, statistics, the optimiser's buffers and some copies, under names that carry the network's number."""
        tensors = {f"network{number}.{name}": value for name, value in self.network.state_dict().items()}
        for name, parameter in self.network.named_parameters():
            for key, value in self.optimiser.state.get(parameter, {}).items():
                tensors[f"{_short(key)}{number}.{name}"] = value
        for copy in copies:
            if copy in self.copies:
                tensors |= {f"{copy}{number}.{name}": value for name, value in self.copies[copy].held.items()}
        return tensors | {f"average{number}.{name}": value for name, value in self._seen_weights().items()}

    def load_state(self, number: int, tensors: dict[str, Tensor], copies: Iterable[str] = ()) -> None:
        weights = f"network{number}."
        self.network.load_state_dict({k.removeprefix(weights): v for k, v in tensors.items() if k.startswith(weights)})
        for name, parameter in self.network.named_parameters():
            for key in BUFFERS:
                if (value := tensors.get(f"{_short(key)}{number}.{name}")) is None:
                    continue
                # preserve_format keeps the layout of the weight, which the optimiser's kernels expect
                like = parameter if value.shape == parameter.shape else self.rate  # Adam's count has no shape
                self.optimiser.state[parameter][key] = torch.empty_like(like, requires_grad=False).copy_(value)
        if self.average is not None:  # none is saved while nobody looks through it
            averages = {name: tensors.get(f"average{number}.{name}") for name in self.average.held}
            self.through_average = None not in averages.values()
            for name, value in averages.items():
                if value is not None:
                    self.average.held[name].copy_(value)
        self.copies = {}
        for copy in copies:
            self._load_copy(copy, f"{copy}{number}.", tensors)
        self.generation += 1

    def _load_copy(self, copy: str, prefix: str, tensors: dict[str, Tensor]) -> None:
        if not any(name.startswith(prefix) for name in tensors):
            return
        self.keep(copy)
        held = self.copies[copy].held
        for name, mine in held.items():
            value = tensors[prefix + name]
            if mine.shape == value.shape:
                mine.copy_(value)  # in the layout of the weight
            else:  # of fewer classes
                held[name] = self.runtime.move(value).clone()
                self._outgrown.add(copy)


BUFFERS = ("momentum_buffer", "step", "exp_avg", "exp_avg_sq")  # of SGD and of Adam


def _short(key: str) -> str:
    return key.removesuffix("_buffer")

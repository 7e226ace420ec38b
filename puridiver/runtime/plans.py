"""Steps that are captured once per shape and then replayed, over the rows of a plan or as functions of tensors.

At batch 16 a step takes a GPU about a millisecond, but a host five to ten to launch kernel by kernel. On a CPU, or with
`graphs=False`, `PlanRunner` and `Captured` simply call the function.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol

import torch
from torch import Tensor

from puridiver.runtime.capture import share_given_back
from puridiver.runtime.device import Runtime

logger = logging.getLogger(__name__)

# The first calls of a new shape run eagerly and create what a capture needs: optimiser state, cuDNN's choice of
# algorithms, compiled kernels. They are ordinary steps otherwise.
EAGER_CALLS = 1
# A capture may fail once because of what others do on the GPU at that moment.
MOST_TRIES = 3
MOST_GRAPHS = 128  # of one step: more than the batch shapes of C, R and U that a run meets


class Versioned(Protocol):
    """Holds tensors that captured steps refer to; `version` changes when a tensor gets another address."""

    version: int


class Buffers(dict[str, Tensor]):
    """Tensors at fixed addresses, which captured steps may read."""

    version = 0

    def put(self, name: str, value: Tensor) -> Tensor:
        """Copy a tensor into its buffer, or make a new buffer if the old one does not fit."""
        held = self.get(name)
        if held is None or held.shape != value.shape or held.dtype != value.dtype or held.device != value.device:
            held = self[name] = value.clone()
            self.version += 1
        else:
            held.copy_(value)
        return held


class PlanRunner:
    """Runs a step over the rows of an integer plan: `step(row, *static)` for each row, in order.

    The plan holds everything random about the steps (which samples, which partners, which box), drawn on the host, so
    that the step is the same sequence of kernels every time. `static` are hashable constants of the sequence (sizes,
    flags): each combination is captured once. `held` are the buffers and models whose tensors the step refers to.
    """

    def __init__(self, runtime: Runtime, step: Callable[..., None], *held: Versioned) -> None:
        self.runtime, self.step, self.held = runtime, step, held
        self._loops: OrderedDict[Hashable, _Loop] = OrderedDict()

    def __call__(self, plan: Tensor, *static: Hashable, often: bool = True) -> None:
        """Without `often` nothing is captured: the graphs of rare shapes would cost more than they save."""
        if not (often and self.runtime.graphs):
            for row in self.runtime.move(plan):
                self.step(row, *static)
            return
        key = (plan.shape[1], static, _versions(self.held))
        loop = self._loops.get(key)
        if loop is None or loop.capacity < len(plan):
            loop = self._loops[key] = _Loop(self.runtime, self.step, static, max(64, 2 * len(plan)), plan.shape[1])
        _keep_recent(self._loops, key)
        loop.run(plan)


class _Step:
    """A sequence of kernels: it runs eagerly at first, then is captured, then replayed."""

    def __init__(self, runtime: Runtime, shared: bool) -> None:
        self.runtime, self.shared = runtime, shared
        self.graph: torch.cuda.CUDAGraph | None = None
        self.eager_calls = 0
        self._tries = 0

    @property
    def may_capture(self) -> bool:
        return self.eager_calls >= EAGER_CALLS and self._tries < MOST_TRIES

    def captured(self, function: Callable[[], None]) -> torch.cuda.CUDAGraph | None:
        """The graph, captured now if it is time; None before that, or if it cannot be captured."""
        if self.graph is None and self.may_capture:
            self._tries += 1
            self.graph = self.runtime.captures.capture(function, self.runtime.device, self.shared)
            if self.graph is None and self._tries == MOST_TRIES:
                logger.warning("a step cannot be captured and runs uncaptured, many times slower")
        return self.graph


class _Loop(_Step):
    """One captured step and its plan's buffer; a counter on the device selects the row."""

    def __init__(
        self, runtime: Runtime, step: Callable[..., None], static: tuple[Hashable, ...], capacity: int, width: int
    ) -> None:
        super().__init__(runtime, shared=True)
        self.step, self.static, self.capacity = step, static, capacity
        self.plan = torch.zeros(capacity, width, dtype=torch.int64, device=runtime.device)
        self.counter = torch.zeros(1, dtype=torch.int64, device=runtime.device)

    def run(self, plan: Tensor) -> None:
        self.plan[: len(plan)].copy_(self.runtime.move(plan), non_blocking=True)
        self.counter.zero_()
        eager = min(len(plan), max(0, EAGER_CALLS - self.eager_calls))
        self._advance_eagerly(eager)
        if eager == len(plan):
            return
        if (graph := self.captured(self._advance)) is None:  # tried again at the next plan
            self._advance_eagerly(len(plan) - eager)
            return
        with share_given_back():
            for _ in range(len(plan) - eager):
                graph.replay()

    def _advance_eagerly(self, n: int) -> None:
        for _ in range(n):
            self.eager_calls += 1
            self._advance()

    def _advance(self) -> None:
        self.step(self.plan.index_select(0, self.counter).squeeze(0), *self.static)
        self.counter += 1


class Captured:
    """A function of tensors, captured once for each combination of shapes. Its results live until the next call.

    `held` are the buffers and models whose tensors the function refers to. Each graph has memory of its own: in a
    shared pool, replaying an older graph could overwrite the results. With `copies=True` the results (a tensor or a
    named tuple of tensors) are copied at once, so that large intermediates may share a pool.
    """

    def __init__(self, runtime: Runtime, function: Callable[..., Any], *held: Versioned, copies: bool = False) -> None:
        self.runtime, self.function, self.held, self.copies = runtime, function, held, copies
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    def __call__(self, *tensors: Tensor, static: tuple[Hashable, ...] = ()) -> Any:
        """`static` are further arguments; each combination is captured once."""
        if not self.runtime.graphs:
            return self.function(*tensors, *static)
        key = (static, _versions(self.held), *((t.shape, t.dtype, t.stride()) for t in tensors))
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(self.runtime, self.function, static, self.copies)
        _keep_recent(self._entries, key)
        result = entry(*tensors)
        if not self.copies:
            return result
        return result.clone() if isinstance(result, Tensor) else type(result)(*map(Tensor.clone, result))


class _Entry(_Step):
    """One captured function for given shapes, with the buffers of its inputs."""

    def __init__(self, runtime: Runtime, function: Callable[..., Any], static: tuple[Any, ...], shared: bool) -> None:
        super().__init__(runtime, shared)
        self.function, self.static = function, static
        self.inputs: list[Tensor] = []
        self.result: Any = None

    def __call__(self, *tensors: Tensor) -> Any:
        if self.graph is None and self.may_capture:
            self.inputs = [t.clone() for t in tensors]
        graph = self.captured(self._compute)
        if graph is None:
            self.eager_calls += 1
            return self.function(*tensors, *self.static)
        for held, given in zip(self.inputs, tensors, strict=True):
            held.copy_(given)
        with share_given_back():
            graph.replay()
        return self.result

    def _compute(self) -> None:
        self.result = self.function(*self.inputs, *self.static)


def _versions(held: Iterable[Versioned]) -> tuple[int, ...]:
    return tuple(each.version for each in held)


def _keep_recent(held: OrderedDict[Hashable, Any], key: Hashable) -> None:
    """Drop the least recently used graphs, so that rare shapes do not fill the GPU."""
    held.move_to_end(key)
    while len(held) > MOST_GRAPHS:
        held.popitem(last=False)

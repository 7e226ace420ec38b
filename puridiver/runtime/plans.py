"""Steps that are captured once per shape and then replayed, over the rows of a plan or as functions of tensors.

At batch 16 a step takes a GPU about a millisecond, but a host five to ten to launch kernel by kernel. On a CPU, or with
`graphs=False`, the steps are plain calls.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from puridiver.runtime.capture import share_given_back
from puridiver.runtime.device import Runtime

logger = logging.getLogger(__name__)

EAGER_CALLS = 1  # create what a capture needs: optimiser state, cuDNN's choice of algorithms, compiled kernels
MOST_TRIES = 3  # a capture may fail because of what others do on the GPU at that moment
MOST_GRAPHS = 128  # of one step: more than the batch shapes of C, R and U that a run meets


class Versioned(Protocol):
    """Holds tensors that captured steps refer to; `version` changes when a tensor gets another address."""

    version: int


class Buffers(dict[str, Tensor]):
    """Tensors at fixed addresses, which captured steps may read."""

    version = 0

    def put(self, name: str, value: Tensor) -> None:
        """Copy a tensor into its buffer, or make a new buffer if the old one does not fit."""
        held = self.get(name)
        if held is None or held.shape != value.shape or held.dtype != value.dtype or held.device != value.device:
            self[name] = value.clone()
            self.version += 1
        else:
            held.copy_(value)


class PlanRunner:
    """Runs a step over the rows of an integer plan: `step(row, *static)` for each row, in order.

    The plan holds everything random about the steps (which samples, which partners, which box), drawn on the host, so
    that the step is the same sequence of kernels every time. `static` are hashable constants of the sequence (sizes,
    flags): each combination is captured once. `held` are the buffers and models whose tensors the step refers to.
    """

    def __init__(self, runtime: Runtime, step: Callable[..., None], *held: Versioned) -> None:
        self.runtime, self.step, self.held = runtime, step, held
        self._loops: OrderedDict[Hashable, _Kernels] = OrderedDict()

    def __call__(self, plan: Tensor, *static: Hashable) -> None:
        if not self.runtime.graphs:
            for row in self.runtime.move(plan):
                self.step(row, *static)
            return
        key = (plan.shape[1], static, *(each.version for each in self.held))
        loop = self._loops.get(key)
        if loop is None or len(loop.buffers[0]) < len(plan):
            shapes = (max(64, 2 * len(plan)), plan.shape[1]), (1,)
            buffers = [torch.zeros(shape, dtype=torch.int64, device=self.runtime.device) for shape in shapes]
            loop = _Kernels(self.runtime, partial(self._next_step, static), buffers, shared=True)
        _keep_recent(self._loops, key, loop)
        rows, counter = loop.buffers
        rows[: len(plan)].copy_(self.runtime.move(plan), non_blocking=True)
        counter.zero_()
        loop.run(len(plan))

    def _next_step(self, static: tuple[Hashable, ...], rows: Tensor, counter: Tensor) -> None:
        """A step by the row that a counter on the device selects."""
        self.step(rows.index_select(0, counter).squeeze(0), *static)
        counter.add_(1)


class Captured:
    """A function of tensors, captured once for each combination of shapes; see `captured`."""

    def __init__(self, runtime: Runtime, function: Callable[..., Any], held: Sequence[Versioned], copies: bool) -> None:
        self.runtime, self.function, self.held, self.copies = runtime, function, held, copies
        self._calls: OrderedDict[Hashable, _Kernels] = OrderedDict()

    def __call__(self, *arguments: Any) -> Any:
        tensors = [argument for argument in arguments if isinstance(argument, Tensor)]
        static = arguments[len(tensors) :]
        key = (static, *(each.version for each in self.held), *((t.shape, t.dtype, t.stride()) for t in tensors))
        call = self._calls.get(key)
        if call is None:
            buffers = [tensor.clone() for tensor in tensors]
            call = _Kernels(self.runtime, lambda *inputs: self.function(*inputs, *static), buffers, self.copies)
        _keep_recent(self._calls, key, call)
        for buffer, given in zip(call.buffers, tensors, strict=True):
            buffer.copy_(given)
        call.run()
        result = call.result
        if not self.copies:
            return result
        return result.clone() if isinstance(result, Tensor) else type(result)(*map(Tensor.clone, result))


def captured(
    runtime: Runtime, function: Callable[..., Any], *held: Versioned, copies: bool = False
) -> Callable[..., Any]:
    """The function itself, or where steps are captured a replay of it. Its results live until the next call.

    Tensors come first; each combination of the hashable arguments after them is captured once. `held` are the buffers
    and models whose tensors the function refers to. Each graph has memory of its own: in a shared pool, replaying an
    older graph could overwrite the results. With `copies=True` the results (a tensor or a named tuple of tensors) are
    copied at once, so that large intermediates may share a pool.
    """
    return Captured(runtime, function, held, copies) if runtime.graphs else function


class _Kernels:
    """A function of some buffers: it runs eagerly at first, then is captured, then replayed."""

    def __init__(self, runtime: Runtime, function: Callable[..., Any], buffers: list[Tensor], shared: bool) -> None:
        self.runtime, self.function, self.buffers, self.shared = runtime, function, buffers, shared
        self.result: Any = None
        self.graph: torch.cuda.CUDAGraph | None = None
        self._eager_left, self._tries_left = EAGER_CALLS, MOST_TRIES

    def _compute(self) -> None:
        self.result = self.function(*self.buffers)

    def run(self, times: int = 1) -> None:
        eager = min(times, self._eager_left)
        self._eager_left -= eager
        for _ in range(eager):
            self._compute()
        if self.graph is None and self._tries_left and times > eager:
            self._tries_left -= 1
            self.graph = self.runtime.captures.capture(self._compute, self.runtime.device, self.shared)
            if self.graph is None and not self._tries_left:
                logger.warning("a step cannot be captured and runs uncaptured, many times slower")
        if self.graph is None:
            for _ in range(times - eager):
                self._compute()
            return
        with share_given_back():
            for _ in range(times - eager):
                self.graph.replay()


def _keep_recent(kept: OrderedDict[Hashable, _Kernels], key: Hashable, value: _Kernels) -> None:
    """Drop the least recently used graphs, so that rare shapes do not fill the GPU."""
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > MOST_GRAPHS:
        kept.popitem(last=False)

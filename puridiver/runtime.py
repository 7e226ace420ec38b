"""Where and how tensors are computed: device, precision, memory format, graph capture. Decided here and nowhere else.

One code path serves CPU and GPU. A network's step at batch 16 takes a GPU about a millisecond but a host five to ten
to launch kernel by kernel, so on a GPU a step is captured once for each shape as a CUDA graph and then replayed.
`PlanRunner` and `Captured` hide that: on a CPU, or with `graphs=False`, they simply call the function.
"""

from __future__ import annotations

import contextlib
import logging
import platform
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

logger = logging.getLogger(__name__)

PRECISIONS = ("auto", "float32", "bfloat16")
# Calls of a new shape that run eagerly before its capture: they create what must exist beforehand (optimiser state,
# cuDNN's choice of algorithms, compiled kernels) and are ordinary steps in every other respect.
EAGER_CALLS = 1
# A capture may fail once because of what others do on the GPU at that moment.
MOST_TRIES = 3
MOST_GRAPHS = 128  # of one step: more than the batch shapes of C, R and U that a run meets
_lane = threading.local()


class _Launching:
    """Lanes (puridiver.lanes) are threads that launch work side by side; but whoever captures must be alone.

    A lane has a share of the host except while it waits for the GPU or replays what is captured already, which does
    not disturb a capture. A capture gives its own share back, waits until nobody has one, and keeps newcomers out.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._shares = 0
        self._captures = 0  # that run or wait to run

    def enter(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._captures)
            self._shares += 1

    def leave(self) -> None:
        with self._changed:
            self._shares -= 1
            self._changed.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """For a thread that has a share."""
        with self._changed:
            self._captures += 1
            self._shares -= 1
            self._changed.notify_all()
            try:
                # The condition's lock is held throughout the capture: a second one waits for it here.
                self._changed.wait_for(lambda: not self._shares)
                yield
            finally:
                self._captures -= 1
                self._shares += 1
                self._changed.notify_all()


_launching = _Launching()


@contextlib.contextmanager
def _share_given_back() -> Iterator[None]:
    """For what may go on beside a capture. A lane that replays an epoch is at it for as long as the GPU has a queue:
    if that kept captures out, every new shape would stop all lanes in turn."""
    inside = getattr(_lane, "inside", False)
    if inside:
        _launching.leave()
    try:
        yield
    finally:
        if inside:
            _launching.enter()


class _Captures:
    """What the captured steps of one run share: memory for their intermediates."""

    def __init__(self) -> None:
        self._pool: Any = None
        # Of captures that failed: torch's allocator may still ask them whether a stream is theirs.
        self._spoilt: list[torch.cuda.CUDAGraph] = []

    def pool(self) -> Any:
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        return self._pool

    def capture(self, function: Callable[[], None], device: torch.device, shared: bool) -> torch.cuda.CUDAGraph | None:
        """The function's kernels as a graph; None, with one line in the log, where it cannot be captured.

        (`torch.cuda.graph` would do, but it waits for the whole GPU and empties the allocator's cache each time.)
        """
        graph = torch.cuda.CUDAGraph()
        pool = self.pool() if shared else torch.cuda.graph_pool_handle()
        here = torch.cuda.current_stream(device)  # of the run's GPU, which need not be the process's current one
        side = thread_stream(here.device, "capture")  # the ordinary stream of a process cannot be captured
        side.wait_stream(here)
        alone = _launching.alone() if getattr(_lane, "inside", False) else contextlib.nullcontext()
        try:
            with alone, torch.cuda.stream(side):
                graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                try:
                    function()
                finally:
                    graph.capture_end()
        except RuntimeError as error:  # torch.OutOfMemoryError is one
            logger.info("a step could not be captured: %s", str(error).splitlines()[0])
            self._give_up(graph, pool, here.device)
            return None
        here.wait_stream(side)
        return graph

    def _give_up(self, graph: torch.cuda.CUDAGraph, pool: Any, device: torch.device) -> None:
        """After a failed capture: where its end failed, torch goes on recording to the pool and takes no other."""
        self._pool = None
        self._spoilt.append(graph)
        end = getattr(torch._C, "_cuda_endAllocateToPool", None)
        if end is not None:
            with contextlib.suppress(RuntimeError):  # it had ended
                end(device.index or 0, pool)


class _Staging:
    """Slots of pinned host memory, used in turn, by way of which small tensors go to the GPU without a wait.

    Pinning each tensor by itself took memory from CUDA again and again, for which it waits until the GPU has nothing
    left to do: the host spent 4.7 of the 5.2 ms of an online step in it.
    """

    SLOTS, SLOT_BYTES = 64, 64 << 10

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._memory: Tensor | None = None
        self._copied: list[torch.cuda.Event] = []  # of each slot, when its last copy was done
        self._next = 0

    def move(self, tensor: Tensor, device: torch.device) -> Tensor:
        """A copy on the GPU of a tensor of at most SLOT_BYTES."""
        with self._lock:
            if self._memory is None:
                self._memory = torch.empty(self.SLOTS, self.SLOT_BYTES, dtype=torch.uint8, pin_memory=True)
                self._copied = [torch.cuda.Event() for _ in range(self.SLOTS)]
            slot, self._next = self._next, (self._next + 1) % self.SLOTS
            copied = self._copied[slot]
            copied.synchronize()  # a formality, unless the GPU is a whole round behind
            staged = self._memory[slot, : tensor.nbytes].view(tensor.dtype).view(tensor.shape)
            staged.copy_(tensor)
            moved = staged.to(device, non_blocking=True)
            copied.record(torch.cuda.current_stream(device))
            return moved


@dataclass(frozen=True)
class Runtime:
    """The device, the precision of convolutions, and whether steps are captured."""

    device: torch.device
    precision: str = "float32"
    graphs: bool = False
    captures: _Captures = field(default_factory=_Captures, compare=False)
    staging: _Staging = field(default_factory=_Staging, compare=False, repr=False)

    def place(self, network: nn.Module) -> nn.Module:
        # channels_last is torch's faster layout for convolutions on CPUs and tensor cores alike.
        return network.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]

    def move(self, tensor: Tensor) -> Tensor:
        """The tensor on the device. By way of pinned memory: a copy from any other makes the host wait for the GPU."""
        if self.device.type == "cuda" and tensor.device.type == "cpu":
            if 0 < tensor.nbytes <= self.staging.SLOT_BYTES:
                return self.staging.move(tensor, self.device)
            tensor = tensor.pin_memory()
        return tensor.to(self.device, non_blocking=True)

    def wait(self) -> None:
        """Wait until the device has done all that was asked of it; other lanes have the host meanwhile."""
        if self.device.type != "cuda":
            return
        with _share_given_back():
            torch.cuda.current_stream(self.device).synchronize()

    def read(self, tensor: Tensor) -> Tensor:
        """The tensor on the host."""
        self.wait()
        return tensor.cpu()


def thread_stream(device: torch.device, purpose: str) -> torch.cuda.Stream:
    """This thread's own stream for a purpose. Kept for its next run: the allocator's memory belongs to a stream."""
    streams = _lane.__dict__.setdefault("streams", {})
    if (device, purpose) not in streams:
        streams[device, purpose] = torch.cuda.Stream(device)
    return streams[device, purpose]


@contextlib.contextmanager
def launching() -> Iterator[None]:
    """What a lane must be in whenever it does anything on the GPU but wait."""
    _launching.enter()
    _lane.inside = True
    try:
        yield
    finally:
        _lane.inside = False
        _launching.leave()


def choose_runtime(device: str = "auto", precision: str = "auto", graphs: bool = True) -> Runtime:
    """`auto` takes the first CUDA GPU if there is one, else the CPU; bfloat16 where the GPU has it."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision should be one of {', '.join(PRECISIONS)}, but got {precision!r}")
    chosen = _choose_device(device)
    if chosen.type != "cuda":
        if precision == "bfloat16":
            logger.warning("bfloat16 is many times slower than float32 on a CPU: using float32")
        return Runtime(chosen)
    return Runtime(chosen, _choose_precision(chosen, precision), graphs)


def _choose_device(device: str) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device should be auto, cpu, cuda or cuda:N, but got {device!r}") from error
    if chosen.type not in ("cpu", "cuda"):
        raise ValueError(f"device should be auto, cpu, cuda or cuda:N, but got {device!r}")
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {device!r} was asked for, but torch {torch.__version__} sees no CUDA GPU; use cpu")
    if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device {device!r} was asked for, but there are only {torch.cuda.device_count()} GPUs")
    return chosen


def _choose_precision(device: torch.device, precision: str) -> str:
    if precision == "float32":
        return precision
    if torch.cuda.get_device_capability(device) < (8, 0):  # older GPUs only emulate bfloat16
        if precision == "bfloat16":
            logger.warning("%s has no bfloat16 units: using float32", torch.cuda.get_device_name(device))
        return "float32"
    return "bfloat16"


@contextlib.contextmanager
def steady_threads(device: torch.device, network: str) -> Iterator[None]:
    """One thread meanwhile for the small network on a CPU.

    A sum over several threads comes out a little differently, so that the same seed would give other figures on a
    machine with another number of cores. The small network gains little from a second thread (3.8 against 5.0 s for
    the digits run on two idle cores) and loses all on a busy machine. Larger ones keep the threads they are given.
    """
    before = torch.get_num_threads()
    if device.type == "cpu" and network == "small":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def describe_device(device: torch.device) -> str:
    """A name for result records: the GPU's product name, or the CPU with its thread count."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{platform.machine()} CPU, {threads} thread{'s' if threads > 1 else ''}"


class Buffers:
    """Tensors at fixed addresses, which captured steps may read. A name's version changes when its address does."""

    def __init__(self) -> None:
        self._held: dict[str, Tensor] = {}
        self._versions: dict[str, int] = {}

    def __getitem__(self, name: str) -> Tensor:
        return self._held[name]

    def __contains__(self, name: str) -> bool:
        return name in self._held

    def versions(self, *names: str) -> tuple[int, ...]:
        return tuple(self._versions[name] for name in names)

    def put(self, name: str, value: Tensor) -> Tensor:
        held = self._held.get(name)
        if held is None or held.shape != value.shape or held.dtype != value.dtype or held.device != value.device:
            self._held[name] = value.clone()
            self._versions[name] = self._versions.get(name, 0) + 1
        else:
            held.copy_(value)
        return self._held[name]

    def fill(self, name: str, first: Tensor, second: Tensor | None = None) -> Tensor:
        """`put` of the first and the second behind it, without joining them elsewhere before."""
        if second is None:
            return self.put(name, first)
        held = self._held.get(name)
        if held is None or held.shape[0] != len(first) + len(second) or held.shape[1:] != first.shape[1:]:
            return self.put(name, torch.cat([first, second]))
        held[: len(first)].copy_(first)
        held[len(first) :].copy_(second)
        return held


class PlanRunner:
    """Runs a step over the rows of an integer plan: `step(row, *static)` for each row, in order.

    The plan holds everything random about the steps (which samples, which partners, which box), drawn on the host,
    so that the step itself is the same sequence of kernels every time. `static` are hashable constants of the
    sequence (sizes, flags, the version of the buffers it reads): each combination is captured once.
    """

    def __init__(self, runtime: Runtime, step: Callable[..., None]) -> None:
        self.runtime, self.step = runtime, step
        self._loops: OrderedDict[Hashable, _Loop] = OrderedDict()

    def __call__(self, plan: Tensor, *static: Hashable) -> None:
        if not self.runtime.graphs:
            for row in self.runtime.move(plan):
                self.step(row, *static)
            return
        key = (plan.shape[1], *static)
        loop = self._loops.get(key)
        if loop is None or loop.capacity < len(plan):
            loop = self._loops[key] = _Loop(self.runtime, self.step, static, max(64, 2 * len(plan)), plan.shape[1])
        _keep_recent(self._loops, key)
        loop.run(plan)


class _Step:
    """A sequence of kernels on its way to a graph: some eager calls, then tries to capture it, then the graph."""

    def __init__(self, runtime: Runtime, shared: bool) -> None:
        self.runtime, self.shared = runtime, shared
        self.graph: torch.cuda.CUDAGraph | None = None
        self.eager_calls = 0
        self._tries = 0

    @property
    def may_capture(self) -> bool:
        return self.eager_calls >= EAGER_CALLS and self._tries < MOST_TRIES

    def captured(self, function: Callable[[], None]) -> torch.cuda.CUDAGraph | None:
        """The graph, captured now if it is time to; None before, and where it cannot be captured."""
        if self.graph is None and self.may_capture:
            self._tries += 1
            self.graph = self.runtime.captures.capture(function, self.runtime.device, self.shared)
            if self.graph is None and self._tries == MOST_TRIES:
                logger.warning("a step cannot be captured and runs uncaptured, many times slower")
        return self.graph


class _Loop(_Step):
    """One captured step and the buffer that its plan is copied to; a counter on the device walks over the rows."""

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
        with _share_given_back():
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

    Each graph has memory of its own: in a shared pool, replaying an older graph could overwrite the results. With
    `copies=True` the results (a tuple of tensors) are copied at once, so that large intermediates may share a pool.
    """

    def __init__(self, runtime: Runtime, function: Callable[..., Any], copies: bool = False) -> None:
        self.runtime, self.function, self.copies = runtime, function, copies
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    def __call__(self, *tensors: Tensor, version: Hashable = 0) -> Any:
        """`version` stands for the address of whatever else the function reads, such as weights."""
        if not self.runtime.graphs:
            return self.function(*tensors)
        key = (version, *((t.shape, t.dtype, t.stride()) for t in tensors))
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(self.runtime, self.function, self.copies)
        _keep_recent(self._entries, key)
        result = entry(*tensors)
        return type(result)(*(tensor.clone() for tensor in result)) if self.copies else result


class _Entry(_Step):
    """One captured function of tensors of some shapes, with the places that its inputs are copied to."""

    def __init__(self, runtime: Runtime, function: Callable[..., Any], shared: bool) -> None:
        super().__init__(runtime, shared)
        self.function = function
        self.inputs: list[Tensor] = []
        self.result: Any = None

    def __call__(self, *tensors: Tensor) -> Any:
        if self.graph is None and self.may_capture:
            self.inputs = [t.clone() for t in tensors]
        graph = self.captured(self._compute)
        if graph is None:
            self.eager_calls += 1
            return self.function(*tensors)
        for held, given in zip(self.inputs, tensors, strict=True):
            held.copy_(given)
        with _share_given_back():
            graph.replay()
        return self.result

    def _compute(self) -> None:
        self.result = self.function(*self.inputs)


def _keep_recent(held: OrderedDict[Hashable, Any], key: Hashable) -> None:
    """Let go of the graphs that were not used for longest: shapes that do not come back must not fill the GPU."""
    held.move_to_end(key)
    while len(held) > MOST_GRAPHS:
        held.popitem(last=False)

"""Device, precision, memory format and threads: this module alone decides them. One code path serves CPU and GPU."""

from __future__ import annotations

import contextlib
import logging
import platform
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from puridiver.runtime.capture import Captures, share_given_back

logger = logging.getLogger(__name__)

PRECISIONS = ("auto", "float32", "bfloat16")


class _Staging:
    """Slots of pinned host memory, used in turn, through which small tensors reach the GPU without a wait.

    Pinning each tensor by itself makes CUDA wait for the GPU: that took 4.7 of the 5.2 ms of an online step.
    """

    SLOTS, SLOT_BYTES = 64, 64 << 10

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._memory: Tensor | None = None
        self._copied: list[torch.cuda.Event] = []  # of each slot, when its last copy was done
        self._next = 0

    def move(self, tensor: Tensor, device: torch.device) -> Tensor:
        """Copy a tensor of at most SLOT_BYTES to the GPU."""
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
    captures: Captures = field(default_factory=Captures, compare=False)
    staging: _Staging = field(default_factory=_Staging, compare=False, repr=False)

    def place(self, network: nn.Module) -> nn.Module:
        """Move the network to the device, in the channels-last layout."""
        tensors = [*network.parameters(), *network.buffers()]
        if all(tensor.dim() != 5 for tensor in tensors):
            return network.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        network.to(self.device)  # torch would also ask this layout of 5-D tensors, which cannot have it
        for tensor in (*network.parameters(), *network.buffers()):
            if tensor.dim() == 4:
                tensor.data = tensor.data.contiguous(memory_format=torch.channels_last)
        return network

    def move(self, tensor: Tensor) -> Tensor:
        """The tensor on the device, through pinned memory: other copies make the host wait for the GPU."""
        if self.device.type == "cuda" and tensor.device.type == "cpu":
            if 0 < tensor.nbytes <= self.staging.SLOT_BYTES:
                return self.staging.move(tensor, self.device)
            tensor = tensor.pin_memory()
        return tensor.to(self.device, non_blocking=True)

    def wait(self) -> None:
        """Wait until the device is idle; other lanes may capture meanwhile."""
        if self.device.type != "cuda":
            return
        with share_given_back():
            torch.cuda.current_stream(self.device).synchronize()

    def read(self, tensor: Tensor) -> Tensor:
        """The tensor on the host."""
        self.wait()
        return tensor.cpu()


@contextlib.contextmanager
def learning() -> Iterator[None]:
    """Enable gradients, even inside a caller's `no_grad` or `inference_mode`."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


def choose_runtime(device: str = "auto", precision: str = "auto", graphs: bool = True) -> Runtime:
    """`auto` takes the first CUDA GPU if there is one, else the CPU; bfloat16 where the GPU has it."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision should be one of {', '.join(PRECISIONS)}, but got {precision!r}")
    if torch.get_default_dtype() != torch.float32:
        raise ValueError(
            f"torch's default type should be float32, but is {str(torch.get_default_dtype()).removeprefix('torch.')}: "
            "networks, and what they are fed, would not fit; set it back with torch.set_default_dtype(torch.float32)"
        )
    chosen = _choose_device(device)
    if chosen.type != "cuda":
        if precision == "bfloat16":
            logger.warning("bfloat16 is many times slower than float32 on a CPU: using float32")
        return Runtime(chosen)
    found = _choose_precision(chosen, precision)
    if found == "float32":
        # cuDNN's default float32 convolutions sum gradients in any order, so a resumed run would differ in its bits.
        # Those of bfloat16 are deterministic as they are (tested).
        torch.backends.cudnn.deterministic = True
    return Runtime(chosen, found, graphs)


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
    """Use one thread for a small network on a CPU, so that a seed gives the same figures on every machine.

    A small network gains little from a second thread on idle cores and loses much on busy ones.
    """
    if device.type != "cpu" or network not in ("small", "convnet"):
        yield
        return
    _STEADY.enter()
    try:
        yield
    finally:
        _STEADY.leave()


class _Steadying:
    """Counts the Python threads that asked for one torch thread, and restores each thread's own number.

    Torch's number is per Python thread, and a new thread inherits the last number that any thread has set.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._before = threading.Lock(), 0, 1
        self._own = threading.local()

    def enter(self) -> None:
        with self._lock:
            now, nested = torch.get_num_threads(), self._own.__dict__.setdefault("before", [])
            if not self._inside:
                self._before = now
            inherited = now == 1 and not nested
            nested.append(self._before if inherited else now)
            self._inside += 1
            torch.set_num_threads(1)

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            torch.set_num_threads(self._own.before.pop())


_STEADY = _Steadying()


def multiprocessors(device: torch.device) -> dict[str, int]:
    """For result records: the multiprocessors of a GPU that this process may use (a share under NVIDIA's MPS)."""
    if device.type != "cuda":
        return {}
    return {"multiprocessors": torch.cuda.get_device_properties(device).multi_processor_count}


def describe_device(device: torch.device) -> str:
    """A name for result records: the GPU's product name, or the CPU with its thread count."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{platform.machine()} CPU, {threads} thread{'s' if threads > 1 else ''}"

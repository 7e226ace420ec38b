"""Device, precision, memory format and threads: this module alone decides them. One code path serves CPU and GPU."""

import contextlib
import ctypes
import gc
import importlib
import logging
import os
import platform
import re
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from puridiver.nets import is_light
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

    def place(self, network: nn.Module) -> None:
        """Move the network to the device, in the channels-last layout."""
        network.to(self.device)
        for tensor in (*network.parameters(), *network.buffers()):
            if tensor.dim() == 4:  # torch's `Module.to` would also ask this layout of 5-D tensors, which cannot have it
                tensor.data = tensor.data.to(memory_format=torch.channels_last)

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
            f"torch's default type should be float32, but is {str(torch.get_default_dtype()).removeprefix('torch.')}; "
            "set it back with torch.set_default_dtype(torch.float32)"
        )
    chosen = _choose_device(device)
    # Older GPUs only emulate bfloat16.
    suits = chosen.type == "cuda" and torch.cuda.get_device_capability(chosen) >= (8, 0)
    if precision == "bfloat16" and not suits:
        logger.warning("bfloat16 is many times slower than float32 on %s: using float32", describe_device(chosen))
    if chosen.type == "cpu":
        return Runtime(chosen)
    if precision == "float32" or not suits:
        # cuDNN's default float32 convolutions sum gradients in any order, so a resumed run would differ in its bits.
        # Those of bfloat16 are deterministic as they are (tested).
        torch.backends.cudnn.deterministic = True
        return Runtime(chosen, "float32", graphs)
    return Runtime(chosen, "bfloat16", graphs)


def _choose_device(device: str) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if not re.fullmatch(r"cpu|cuda(:\d{1,3})?", str(device)):
        raise ValueError(f"device should be auto, cpu, cuda or cuda:N, but got {device!r}")
    chosen, count = torch.device(device), torch.cuda.device_count()
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {device!r} was asked for, but torch {torch.__version__} sees no CUDA GPU; use cpu")
    if chosen.type == "cuda" and (chosen.index or 0) >= count:
        raise ValueError(f"device {device!r} was asked for, but there are only {count} GPUs")
    return chosen


@contextlib.contextmanager
def steady_threads(device: torch.device, network: str) -> Iterator[None]:
    """Use one thread for a light network on a CPU, so that a seed gives the same figures on every machine.

    A small network gains little from a second thread on idle cores and loses much on busy ones.
    """
    before = torch.get_num_threads()
    if device.type == "cpu" and is_light(network):
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def steady_heap() -> None:
    """Keep a process that trains for months at one size and without pauses; call it before threads start.

    All threads allocate from one heap, and large tensors outside it. Otherwise what training frees stays in pieces in
    the heap of its thread. oneDNN keeps compiled code for fewer shapes, since sets and batches have ever new sizes. The
    garbage collector skips the objects of modules: a collection among these would stop every thread for 0.2 s.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")
    one_heap, large, kept_on_top = (-8, 1), (-3, 4 << 20), (-1, 64 << 20)  # glibc's numbers of these settings
    with contextlib.suppress(OSError, AttributeError):  # another C library
        for setting in (one_heap, large, kept_on_top):
            ctypes.CDLL(None).mallopt(*setting)
    if torch.cuda.is_available():
        importlib.import_module("torch._dynamo")  # as the first optimiser on a GPU will
    gc.collect()
    gc.freeze()


def step_back() -> None:
    """Lower the priority of this thread, so that it yields its core to threads that somebody waits for (Linux)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


def release_freed_memory() -> None:
    """Give the system back what is freed, also between pieces that are in use."""
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe_device(device: torch.device) -> str:
    """A name for result records: the GPU's product name, or the CPU with its thread count."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{platform.machine()} CPU, {threads} thread{'s' if threads > 1 else ''}"

"""Capture of CUDA graphs, and lanes: several independent runs that share one GPU, a thread and a CUDA stream each.

One run leaves most of a large GPU idle, since the kernels of a 16-sample step are small. A lane launches a whole epoch
of captured steps without Python's lock and then waits for the GPU, so threads suffice.
"""

import contextlib
import gc
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from puridiver.errors import first_line

logger = logging.getLogger(__name__)

_lane = threading.local()


class Launching:
    """A reader-writer lock: lanes launch work side by side, but a capture must be alone.

    A lane holds a share, except while it waits for the GPU or replays a graph: these do not disturb a capture. A
    capture returns its own share, waits until nobody holds one, and keeps new lanes out.
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
        """Wait until no other thread holds a share; the caller holds one."""
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


_launching = Launching()
_one_capture = threading.RLock()


@contextlib.contextmanager
def share_given_back() -> Iterator[None]:
    """Allow captures meanwhile: a lane replays a whole epoch at once, and would keep them out for as long."""
    inside = getattr(_lane, "inside", False)
    if inside:
        _launching.leave()
    try:
        yield
    finally:
        if inside:
            _launching.enter()


def thread_stream(device: torch.device, purpose: str) -> torch.cuda.Stream:
    """This thread's stream for a purpose; later runs reuse it, because the allocator's memory belongs to a stream."""
    streams = _lane.__dict__.setdefault("streams", {})
    if (device, purpose) not in streams:
        streams[device, purpose] = torch.cuda.Stream(device)
    return streams[device, purpose]


@contextlib.contextmanager
def lane(device: torch.device) -> Iterator[None]:
    """Run the work inside on a CUDA stream of its own; on a CPU nothing changes."""
    if device.type != "cuda":
        yield
        return
    _launching.enter()  # a lane holds a share whenever it does anything on the GPU but wait
    _lane.inside = True
    try:
        stream = thread_stream(device, "lane")
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.device(device), torch.cuda.stream(stream):
            yield
            stream.synchronize()
    finally:
        _lane.inside = False
        _launching.leave()


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause Python's garbage collector during a capture: freeing an older graph then is an error in CUDA."""
    with _one_capture:
        was_on = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if was_on:
                gc.enable()


class Captures:
    """The memory pool that the captured steps of one run share."""

    def __init__(self) -> None:
        self._pool: Any = None
        # Failed captures stay referenced: torch's allocator may still call them.
        self._spoilt: list[torch.cuda.CUDAGraph] = []

    def capture(self, function: Callable[[], None], device: torch.device, shared: bool) -> torch.cuda.CUDAGraph | None:
        """Capture the function's kernels as a graph; None, with one line in the log, if that fails.

        Unlike `torch.cuda.graph` it neither waits for the whole GPU nor empties the allocator's cache.
        """
        # Gradients accumulate on another stream, which newer versions warn of; such steps are tested to learn the same.
        getattr(torch.autograd.graph, "set_warn_on_accumulate_grad_stream_mismatch", bool)(False)
        graph = torch.cuda.CUDAGraph()
        pool = self._pool if shared and self._pool else torch.cuda.graph_pool_handle()
        self._pool = pool if shared else self._pool
        here = torch.cuda.current_stream(device)  # of the run's GPU, which need not be the process's current one
        side = thread_stream(here.device, "capture")  # the ordinary stream of a process cannot be captured
        side.wait_stream(here)
        alone = _launching.alone() if getattr(_lane, "inside", False) else contextlib.nullcontext()
        try:
            with alone, torch.cuda.stream(side), _collector_paused():
                graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                try:
                    function()
                finally:
                    graph.capture_end()
        except RuntimeError as error:  # torch.OutOfMemoryError is one
            logger.info("a step could not be captured: %s", first_line(error))
            self._pool = None
            self._spoilt.append(graph)
            # torch may still allocate to the pool, which blocks the next capture.
            with contextlib.suppress(AttributeError, RuntimeError):  # unknown to this version, or it had ended
                torch._C._cuda_endAllocateToPool(here.device.index or 0, pool)
            return None
        here.wait_stream(side)
        return graph

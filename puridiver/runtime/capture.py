"""Capturing CUDA graphs where several lanes share one GPU: who may do what meanwhile, and the graphs' memory."""

from __future__ import annotations

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
    """Lanes (puridiver.runtime.lanes) are threads that launch work side by side; but whoever captures must be alone.

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


_launching = Launching()


@contextlib.contextmanager
def share_given_back() -> Iterator[None]:
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


class _Collector:
    """Python's collector, at rest while anyone captures: it could let go of an earlier run's graphs meanwhile, which
    CUDA forbids within a capture."""

    def __init__(self) -> None:
        self._lock, self._captures, self._was_on = threading.Lock(), 0, False

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        with self._lock:
            if not self._captures:
                self._was_on = gc.isenabled()
                gc.disable()
            self._captures += 1
        try:
            yield
        finally:
            with self._lock:
                self._captures -= 1
                if not self._captures and self._was_on:
                    gc.enable()


_collector = _Collector()


def _expect_other_streams() -> None:
    """Spare the user torch's warning that gradients gather on another stream than their step's.

    It comes now and then where lanes capture, most likely because torch's engine lets go of a step's graph in a thread
    of its own, after the capture of the next step has begun. Such steps learn what others do (tested).
    """
    warn = getattr(torch.autograd.graph, "set_warn_on_accumulate_grad_stream_mismatch", None)  # of newer versions
    if warn is not None:
        warn(False)


class Captures:
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
        _expect_other_streams()
        graph = torch.cuda.CUDAGraph()
        pool = self.pool() if shared else torch.cuda.graph_pool_handle()
        here = torch.cuda.current_stream(device)  # of the run's GPU, which need not be the process's current one
        side = thread_stream(here.device, "capture")  # the ordinary stream of a process cannot be captured
        side.wait_stream(here)
        alone = _launching.alone() if getattr(_lane, "inside", False) else contextlib.nullcontext()
        try:
            with alone, torch.cuda.stream(side), _collector.resting():
                graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                try:
                    function()
                finally:
                    graph.capture_end()
        except RuntimeError as error:  # torch.OutOfMemoryError is one
            logger.info("a step could not be captured: %s", first_line(error))
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

"""Several independent runs on one GPU: a thread and a CUDA stream each.

One run leaves most of a large GPU idle, since the kernels of a 16-sample step are small. A lane launches a whole epoch
of captured steps without Python's lock and then waits for the GPU, so threads suffice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from puridiver.runtime.capture import launching, thread_stream

Result = TypeVar("Result")


@contextlib.contextmanager
def lane(device: torch.device) -> Iterator[None]:
    """Run the work inside on a CUDA stream of its own; on a CPU nothing changes."""
    if device.type != "cuda":
        yield
        return
    with launching(), torch.cuda.device(device):
        stream = thread_stream(device, "lane")
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            yield
            stream.synchronize()


def run_in_lanes(
    jobs: Sequence[Callable[[], Result]], lanes: int, device: torch.device
) -> list[Result | BaseException]:
    """The results of all jobs, in order, at most `lanes` at a time; a job that fails gives its exception."""
    if lanes < 1:
        raise ValueError(f"lanes should be at least 1, but got {lanes}")

    def in_lane(job: Callable[[], Result]) -> Result | BaseException:
        try:
            with lane(device):
                return job()
        except Exception as error:
            return error

    with ThreadPoolExecutor(max_workers=lanes) as threads:
        return list(threads.map(in_lane, jobs))

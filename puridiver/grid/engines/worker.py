"""A worker process of the engine `processes`: jobs come in on standard input, events go out, a line of JSON each.

It ends when its input does, also in the middle of a run: then the process that gave it work is gone, and the next
one may already be at the same folder. At SIGTERM it ends its run first, so that a checkpoint can be written.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from typing import TextIO

from puridiver.grid.engines.base import Event, Job, run_job
from puridiver.grid.plan import Sources
from puridiver.runs.folder import to_json
from puridiver.runs.provenance import code_hash


def main() -> None:
    code_hash()  # before the first job: files may be edited while the worker waits
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints must not mix with the events
    jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()  # simple: a signal handler may put into it
    threading.Thread(target=_read_jobs, args=(jobs,), daemon=True).start()
    stopping, sources = threading.Event(), Sources()

    def stop(*signal_and_frame: object) -> None:
        stopping.set()
        jobs.put(None)

    signal.signal(signal.SIGTERM, stop)
    while (job := jobs.get()) is not None and not stopping.is_set():
        _tell(out, Event("started", job.key, {"worker": os.getpid()}))
        run_job(job, sources.of, lambda event: _tell(out, event), stopping.is_set)
    out.flush()
    os._exit(0)  # at once: the thread that waits for jobs cannot be woken


def _tell(out: TextIO, event: Event) -> None:
    out.write(to_json({"kind": event.kind, "key": event.key, "detail": event.detail}) + "\n")


def _read_jobs(jobs: queue.SimpleQueue[Job | None]) -> None:
    for line in sys.stdin:
        jobs.put(Job.from_dict(json.loads(line)))
    os._exit(0)


if __name__ == "__main__":
    main()

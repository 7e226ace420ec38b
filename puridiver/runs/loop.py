"""The loop of a run: the phases of each task, from wherever it is, and what it takes to leave it and go on later."""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Protocol

import torch
from torch import Tensor

from puridiver.errors import DataError
from puridiver.learner.learner import Learner
from puridiver.metrics.recorder import Recorder
from puridiver.options import Options
from puridiver.runs.checkpoint import Checkpoints
from puridiver.runs.config import RunConfig
from puridiver.runtime.device import Runtime
from puridiver.streams import Batch, Stream

AHEAD_BYTES = 64 << 20  # images that are held on the device, or moved to it, at a time
# What state of another version, or a damaged one, raises (RuntimeError: weights of another architecture).
MISFITS = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RuntimeError)


class Progress(Protocol):
    """What a run tells while it goes on."""

    def start(self, total: int) -> None: ...
    def advance(self, amount: int, text: str) -> None: ...
    def event(self, event: dict[str, Any]) -> None: ...


class Stopwatch:
    """Counts the seconds of one phase at a time; no phase pays for another's work that the device still does."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.seconds: dict[str, float] = {}
        self._phase: str | None = None
        self._since = 0.0

    def switch(self, phase: str | None) -> None:
        """End the phase that runs and begin another (None: begin none). Costs nothing within one phase."""
        if phase == self._phase:
            return
        self.runtime.wait()
        now = time.perf_counter()
        if self._phase is not None:
            self.seconds[self._phase] = self.seconds.get(self._phase, 0.0) + now - self._since
        self._phase, self._since = phase, now


def trainings_of(task_ends: Sequence[int], options: Options, limit: int | None = None) -> list[int]:
    """How often a run trains on its memory in each task: no more often than the task has batches (up to `limit`)."""
    sizes = (end - start for start, end in itertools.pairwise((0, *task_ends)))
    samples = (size if limit is None else min(size, limit) for size in sizes)
    return [max(1, min(options.consolidations, -(-count // options.batch_size))) for count in samples]


def phases_of(trainings: Sequence[int]) -> list[tuple[str, int, int]]:
    """The way of a run as (phase, task, part): stream and memory take turns, and then the task is evaluated."""
    parts = [(task, part, part + 1 == parts) for task, parts in enumerate(trainings) for part in range(parts)]
    kinds = {False: ("stream", "memory"), True: ("stream", "memory", "evaluate")}
    return [(kind, task, part) for task, part, last in parts for kind in kinds[last]]


class RunLoop:
    """One run on its way through the stream.

    At every safe point (after a batch, a memory epoch, a phase) the learner, the recorder, the clock and the position
    (`phase`, what is `done` of it, and the `work` so far) are all that the rest depends on: `state` gives them and
    `load_state` goes back to them.
    """

    def __init__(
        self, config: RunConfig, stream: Stream, learner: Learner, recorder: Recorder, progress: Progress
    ) -> None:
        self.config, self.stream, self.learner, self.recorder = config, stream, learner, recorder
        self.progress, self.clock = progress, Stopwatch(learner.runtime)
        self.trainings = trainings_of(stream.manifest.task_ends, learner.options, config.stream_limit)
        self.phases = phases_of(self.trainings)
        self.phase = self.done = self.work = 0  # done: batches or epochs; work: in the unit of the progress bar
        self.started = datetime.now(UTC).isoformat(timespec="seconds")

    def run(
        self, stopping: threading.Event, checkpoints: Checkpoints | None = None, events_size: Callable[[], int] = int
    ) -> None:
        """Go from where it is to the end; once `stopping` is set, to the next safe point and KeyboardInterrupt.

        `events_size` says how many bytes of events are on the disk: a checkpoint stands for these.
        """
        self._stopping, self._checkpoints, self._events_size = stopping, checkpoints, events_size
        limit, epochs = self.config.stream_limit, self.learner.options.epochs
        samples = len(self.stream) if limit is None else self.stream.n_tasks * limit
        self.progress.start(samples + sum(self.trainings) * epochs * self.learner.memory.capacity)
        self.progress.advance(self.work, "preparing")
        self.recorder.begin(self.learner)
        try:
            while self.phase < len(self.phases):
                kind, task, part = self.phases[self.phase]
                if kind == "evaluate":
                    self.clock.switch("evaluate")
                    self.progress.event(self.recorder.task_ended(self.learner, task))
                else:
                    (self._stream_phase if kind == "stream" else self._memory_phase)(task, part)
                self.phase, self.done = self.phase + 1, 0
                self._safe_point(phase_ended=True)
        finally:  # also where the run is left: nobody writes to its folder afterwards
            if checkpoints is not None:
                checkpoints.wait()
        self.clock.switch(None)

    def _stream_phase(self, task: int, part: int) -> None:
        wanted, parts = self.config.anytime_points, self.trainings[task]
        batches = self.stream.batches_of(task, self.learner.options.batch_size, self.config.stream_limit)
        first, end = (len(batches) * border // parts for border in (part, part + 1))
        # Spread evenly, and one just before each memory phase: without it what that gains would seem to grow before.
        points = {len(batches) * (i + 1) // wanted for i in range(wanted)} | ({end} if wanted else set())
        already = first + self.done
        left = moved_ahead(batches[already:end], self.learner.runtime)
        for number, batch in enumerate(left, start=already + 1):
            self.clock.switch("observe")
            self.learner.observe(batch.images, batch.labels, batch.names)
            self.recorder.saw(batch, self.learner)
            self._advance(task, number - first, len(batch), "stream")
            if number in points:
                self.clock.switch("evaluate")
                self.recorder.anytime(self.learner, task)
            self._safe_point()

    def _memory_phase(self, task: int, part: int) -> None:
        self.clock.switch("consolidate")
        epochs, last_part = self.learner.options.epochs, part + 1 == self.trainings[task]
        # Only where the released program takes its last accuracy from: it costs a quarter of an epoch's time or more.
        evaluate = self.config.evaluate_epochs and task == self.stream.n_tasks - 1 and last_part
        before = (sum(self.trainings[:task]) + part) * epochs
        for epoch in self.learner.consolidation(warn_if_left=False):
            if evaluate:
                self.clock.switch("evaluate")
            # Else not a phase of its own: it reads the sets while the device still works on the epoch.
            self.recorder.epoch(self.learner, task, part * epochs + epoch, before + epoch + 1, evaluate)
            self._advance(task, epoch + 1, self.learner.memory.capacity, f"memory epoch {epoch + 1}/{epochs}")
            self._safe_point()
            self.clock.switch("consolidate")
        self.recorder.consolidated(self.learner, task)
        if not last_part:  # after the last one all of the task is evaluated
            self.clock.switch("evaluate")
            self.recorder.anytime(self.learner, task)

    def _advance(self, task: int, done: int, work: int, text: str) -> None:
        self.done, self.work = done, self.work + work
        self.progress.advance(work, f"task {task + 1}/{self.stream.n_tasks}: {text}")

    def _safe_point(self, phase_ended: bool = False) -> None:
        """A moment between two moves, at which the run can be saved and left."""
        stopping, checkpoints = self._stopping.is_set(), self._checkpoints
        if checkpoints is not None and (phase_ended or stopping or checkpoints.due()):
            self.clock.switch("checkpoint")
            checkpoints.begin_save(*self.state(self._events_size()))
        if stopping:
            raise KeyboardInterrupt

    def state(self, metrics_size: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """All that the rest of the run depends on: settings, which are JSON, and tensors."""
        learner, of_learner = self.learner.state()
        figures, of_recorder = self.recorder.state()
        at = {"position": [self.phase, self.done, self.work], "started": self.started, "seconds": self.clock.seconds}
        settings = {**at, "metrics_size": metrics_size, "learner": learner, "recorder": figures}
        named = {f"learner.{name}": value for name, value in of_learner.items()}
        return settings, named | {f"recorder.{name}": value for name, value in of_recorder.items()}

    def load_state(self, settings: dict[str, Any], tensors: dict[str, Tensor]) -> int:
        """Go back to where this was the state; returns how many bytes of events there were."""
        parts: dict[str, dict[str, Tensor]] = {"learner": {}, "recorder": {}}
        try:
            for name, value in tensors.items():
                part, _, rest = name.partition(".")
                parts[part][rest] = value
            (phase, done, work), size = settings["position"], settings["metrics_size"]
            if not all(type(n) is int and n >= 0 for n in (phase, done, work, size)) or phase > len(self.phases):
                raise ValueError(f"position {settings['position']!r:.60}, metrics_size {size!r:.60}")
            seconds = {str(phase): float(value) for phase, value in settings["seconds"].items()}
            self.learner.load_state(settings["learner"], parts["learner"])
            self.recorder.load_state(settings["recorder"], parts["recorder"], self.learner.runtime.device)
        except MISFITS as error:
            reason = f"{type(error).__name__}: {error}"
            raise DataError(f"the checkpoint does not hold a whole run of this version: {reason}") from error
        self.phase, self.done, self.work = phase, done, work
        self.clock.seconds, self.started = seconds, str(settings["started"])
        return size


def moved_ahead(batches: Sequence[Callable[[], Batch]], runtime: Runtime) -> Iterator[Batch]:
    """The batches with their images on the device, moved many at a time: a copy for each would make the host wait.

    While one group is learnt from, a thread reads the next: images of large sets come from a file.
    """

    def read(group: Sequence[Callable[[], Batch]]) -> tuple[list[Batch], Tensor]:
        found = [read_batch() for read_batch in group]
        return found, torch.cat([batch.images for batch in found])

    if not batches:
        return
    per_group = max(1, AHEAD_BYTES // max(1, batches[0]().images.nbytes))
    groups = [batches[start : start + per_group] for start in range(0, len(batches), per_group)]
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(read, groups[0])
        for following in [*groups[1:], None]:
            group, images = coming.result()
            if following is not None:
                coming = reader.submit(read, following)
            parts = runtime.move(images).split([len(batch) for batch in group])
            for batch, moved in zip(group, parts, strict=True):
                yield dataclasses.replace(batch, images=moved)

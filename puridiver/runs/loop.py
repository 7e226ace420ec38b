"""The loop of a run: the phases of each task, from wherever it is, and what it takes to leave it and go on later."""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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
PHASES = ("stream", "memory", "evaluate")  # of a task, in order
# What state of another version, or a damaged one, raises (RuntimeError: weights of another architecture).
MISFITS = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RuntimeError)


class Progress(Protocol):
    """What a run tells while it goes on."""

    def start(self, total: int) -> None: ...
    def advance(self, amount: int, text: str) -> None: ...
    def event(self, event: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class Position:
    """Where a run is: between two batches, two memory epochs or two phases."""

    task: int = 0
    phase: str = PHASES[0]
    done: int = 0  # batches or epochs of the phase
    work: int = 0  # of the whole run, in the unit of the progress bar
    part: int = 0  # of the task: each is a part of its stream and a memory training

    def __post_init__(self) -> None:
        numbers = (self.task, self.done, self.work, self.part)
        if self.phase not in PHASES or not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError(f"a position should be a phase and numbers from 0, but got {self}")

    def after(self, done: int, work: int) -> Position:
        return dataclasses.replace(self, done=done, work=self.work + work)

    def next_phase(self, parts: int = 1) -> Position:
        """Of a task with so many parts: stream and memory take turns, and then all of it is evaluated."""
        if self.phase == "memory" and self.part + 1 < parts:
            return Position(self.task, work=self.work, part=self.part + 1)
        if self.phase == PHASES[-1]:
            return Position(self.task + 1, work=self.work)
        return Position(self.task, PHASES[PHASES.index(self.phase) + 1], work=self.work, part=self.part)


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


class RunLoop:
    """One run on its way through the stream.

    At every safe point (after a batch, a memory epoch, a phase) the learner, the recorder, the clock and the position
    are all that the rest depends on: `state` gives them and `load_state` goes back to them.
    """

    def __init__(
        self, config: RunConfig, stream: Stream, learner: Learner, recorder: Recorder, progress: Progress
    ) -> None:
        self.config, self.stream, self.learner, self.recorder = config, stream, learner, recorder
        self.progress, self.clock, self.at = progress, Stopwatch(learner.runtime), Position()
        self.trainings = trainings_of(stream.manifest.task_ends, learner.options, config.stream_limit)
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
        self.progress.advance(self.at.work, "preparing")
        self.recorder.begin(self.learner)
        phases = {"stream": self._stream_phase, "memory": self._memory_phase, "evaluate": self._evaluate_phase}
        try:
            while self.at.task < self.stream.n_tasks:
                phases[self.at.phase](self.at.task, self.trainings[self.at.task])
                self.at = self.at.next_phase(self.trainings[self.at.task])
                self._safe_point(phase_ended=True)
        finally:  # also where the run is left: nobody writes to its folder afterwards
            if checkpoints is not None:
                checkpoints.wait()
        self.clock.switch(None)

    def _stream_phase(self, task: int, parts: int) -> None:
        wanted = self.config.anytime_points
        batches = self.stream.batches_of(task, self.learner.options.batch_size, self.config.stream_limit)
        first, end = (len(batches) * part // parts for part in (self.at.part, self.at.part + 1))
        # Spread evenly, and one just before each memory phase: without it what that gains would seem to grow before.
        points = {len(batches) * (i + 1) // wanted for i in range(wanted)} | ({end} if wanted else set())
        already = first + self.at.done
        left = moved_ahead(batches[already:end], self.learner.runtime)
        for number, batch in enumerate(left, start=already + 1):
            self.clock.switch("observe")
            self.learner.observe(batch.images, batch.labels, batch.names)
            self.recorder.saw(batch, self.learner)
            self._advance(number - first, len(batch), "stream")
            if number in points:
                self.clock.switch("evaluate")
                self.recorder.anytime(self.learner, task)
            self._safe_point()

    def _memory_phase(self, task: int, parts: int) -> None:
        self.clock.switch("consolidate")
        epochs, last_part = self.learner.options.epochs, self.at.part + 1 == parts
        # Only where the released program takes its last accuracy from: it costs a quarter of an epoch's time or more.
        evaluate = self.config.evaluate_epochs and task == self.stream.n_tasks - 1 and last_part
        before = (sum(self.trainings[:task]) + self.at.part) * epochs
        for epoch in self.learner.consolidation(warn_if_left=False):
            if evaluate:
                self.clock.switch("evaluate")
            # Else not a phase of its own: it reads the sets while the device still works on the epoch.
            self.recorder.epoch(self.learner, task, self.at.part * epochs + epoch, before + epoch + 1, evaluate)
            self._advance(epoch + 1, self.learner.memory.capacity, f"memory epoch {epoch + 1}/{epochs}")
            self._safe_point()
            self.clock.switch("consolidate")
        self.recorder.consolidated(self.learner, task)
        if not last_part:  # after the last one all of the task is evaluated
            self.clock.switch("evaluate")
            self.recorder.anytime(self.learner, task)

    def _evaluate_phase(self, task: int, parts: int) -> None:
        self.clock.switch("evaluate")
        self.progress.event(self.recorder.task_ended(self.learner, task))

    def _advance(self, done: int, work: int, text: str) -> None:
        self.at = self.at.after(done, work)
        self.progress.advance(work, f"task {self.at.task + 1}/{self.stream.n_tasks}: {text}")

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
        position, at = dataclasses.asdict(self.at), {"started": self.started, "seconds": self.clock.seconds}
        settings = {"position": position, **at, "metrics_size": metrics_size, "learner": learner, "recorder": figures}
        named = {f"learner.{name}": value for name, value in of_learner.items()}
        return settings, named | {f"recorder.{name}": value for name, value in of_recorder.items()}

    def load_state(self, settings: dict[str, Any], tensors: dict[str, Tensor]) -> int:
        """Go back to where this was the state; returns how many bytes of events there were."""
        parts: dict[str, dict[str, Tensor]] = {"learner": {}, "recorder": {}}
        try:
            for name, value in tensors.items():
                part, _, rest = name.partition(".")
                parts[part][rest] = value
            at, size = Position(**settings["position"]), settings["metrics_size"]
            if at.task > self.stream.n_tasks or type(size) is not int or size < 0:
                raise ValueError(f"task {at.task} of {self.stream.n_tasks}, metrics_size {size!r}")
            seconds = {str(phase): float(value) for phase, value in settings["seconds"].items()}
            self.learner.load_state(settings["learner"], parts["learner"])
            self.recorder.load_state(settings["recorder"], parts["recorder"], self.learner.runtime.device)
        except MISFITS as error:
            reason = f"{type(error).__name__}: {error}"
            raise DataError(f"the checkpoint does not hold a whole run of this version: {reason}") from error
        self.at, self.clock.seconds, self.started = at, seconds, str(settings["started"])
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

"""The loop of a run: the phases of each task, and the state from which an interrupted run continues."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import numpy as np
from torch import Tensor

from puridiver.errors import DataError
from puridiver.metrics.recorder import Recorder
from puridiver.runs import Progress
from puridiver.runs.checkpoint import Checkpoint
from puridiver.runs.config import RunConfig
from puridiver.streams import Stream

AHEAD_BYTES = 64 << 20  # images that are held on the device, or moved to it, at a time
# What loading a damaged state, or one of another version, raises (RuntimeError: another architecture).
MISFITS = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RuntimeError)


class RunLoop:
    """Leads a learner through the stream. Stream and memory phases alternate, and then the task is evaluated.

    At every safe point (after a batch, a memory epoch, a phase) the learner, the recorder, the seconds and the position
    (`phase`, what is `done` of it, and the `work` so far) are all that the rest depends on: `state` gives them and
    `load_state` goes back to them.
    """

    def __init__(self, config: RunConfig, stream: Stream, recorder: Recorder, progress: Progress) -> None:
        self.config, self.stream, self.recorder, self.progress = config, stream, recorder, progress
        self.learner = recorder.learner
        options, sizes = self.learner.options, np.diff((0, *stream.manifest.task_ends))
        self.batch = options.stream_batch or options.batch_size  # samples that arrive together
        # How often each task trains on the memory: no more often than it has batches.
        self.trainings = np.clip(-(-sizes // self.batch), 1, options.consolidations).tolist()
        self.phases: list[tuple[str, int, int]] = []  # kind, task, which part of the task
        for task, parts in enumerate(self.trainings):
            for part in range(parts):
                self.phases += [("stream", task, part), ("memory", task, part)]
            self.phases.append(("evaluate", task, parts - 1))
        self.phase = self.done = self.work = 0  # done: batches or epochs; work: in the unit of the progress bar
        self.stream_work = 2 * self.learner.trainer.steps  # measured: a stream sample's time, in memory samples
        self.started = datetime.now(UTC).isoformat(timespec="seconds")
        self.seconds: dict[str, float] = {}  # by activity
        self._activity, self._since = "", 0.0

    def run(
        self, stopping: threading.Event, checkpoint: Checkpoint | None = None, events_size: Callable[[], int] = int
    ) -> None:
        """Run to the end; once `stopping` is set, stop at the next safe point with a KeyboardInterrupt.

        `events_size` says how many bytes of events are on the disk: a checkpoint stands for these.
        """
        self._stopping, self._checkpoint, self._events_size = stopping, checkpoint, events_size
        memory_work = sum(self.trainings) * self.learner.options.epochs * self.learner.memory.capacity
        self.progress.start(len(self.stream) * self.stream_work + memory_work, self.work)
        try:
            while self.phase < len(self.phases):
                kind, task, part = self.phases[self.phase]
                if kind == "stream":
                    self._stream_phase(task, part)
                elif kind == "memory":
                    self._memory_phase(task, part)
                else:
                    self._measure("evaluate")
                    self.progress.event(self.recorder.task_ended(task))
                self.phase, self.done = self.phase + 1, 0
                self._safe_point(phase_ended=True)
        finally:  # also where the run is left: nobody writes to its folder afterwards
            if checkpoint is not None:
                checkpoint.wait()
        self._measure("")

    def _stream_phase(self, task: int, part: int) -> None:
        wanted, parts = self.config.anytime_points, self.trainings[task]
        arrivals, size = self.stream.manifest.task_slice(task), self.batch
        n_batches = -(-(arrivals.stop - arrivals.start) // size)
        first, end = n_batches * part // parts, n_batches * (part + 1) // parts
        # Spread evenly, and one just before each memory phase, so that its gain does not seem to come earlier.
        points = {end, *(n_batches * np.arange(1, wanted + 1) // wanted).tolist()} if wanted else set()
        number = first + self.done
        stop = min(arrivals.start + end * size, arrivals.stop)
        start = min(arrivals.start + number * size, stop)
        for images, labels, names in self._moved_ahead(start, stop):
            if self.config.live:
                self._measure("evaluate")
                self.recorder.arrived(images)
            self._measure("observe")
            self.learner.observe(images, labels, names, judge=False)
            self.recorder.observed()
            number += 1
            self._advance(task, number - first, len(labels) * self.stream_work, "stream")
            if number in points:
                self._measure("evaluate")
                self.recorder.anytime(task)
            self._safe_point()

    def _moved_ahead(self, start: int, stop: int) -> Iterator[tuple[Tensor, Tensor, list[str] | None]]:
        """Batches of these arrivals, images on the device: moved many at a time, since each copy makes the host wait.

        While the learner observes one group, a thread reads the next: images of large sets come from a file.
        """
        size = self.batch
        group = size * max(1, AHEAD_BYTES // (size * math.prod(self.learner.input_shape)))
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(self.stream.read, start, min(start + group, stop))
            for following in range(start + group, stop + group, group):
                read = coming.result()
                if following < stop:
                    coming = reader.submit(self.stream.read, following, min(following + group, stop))
                images = self.learner.runtime.move(read.images)
                for first in range(0, len(read.labels), size):
                    rows = slice(first, first + size)
                    yield images[rows], read.labels[rows], None if read.names is None else read.names[rows]

    def _memory_phase(self, task: int, part: int) -> None:
        self._measure("consolidate")
        epochs, last_part = self.learner.options.epochs, part + 1 == self.trainings[task]
        # Only where the released program takes its last accuracy from: evaluating costs a quarter of an epoch or more.
        evaluate = self.config.evaluate_epochs and task == self.stream.n_tasks - 1 and last_part
        before = (sum(self.trainings[:task]) + part) * epochs
        for epoch in self.learner.consolidation():
            if evaluate:
                self._measure("evaluate")
            # Without evaluation its time counts as training: it reads sets while the device still works on the epoch.
            self.recorder.epoch(task, part * epochs + epoch, before + epoch + 1, evaluate)
            self._advance(task, epoch + 1, self.learner.memory.capacity, f"memory epoch {epoch + 1}/{epochs}")
            self._safe_point()
            self._measure("consolidate")
        if not last_part:  # after the last one all of the task is evaluated
            self._measure("evaluate")
            self.recorder.anytime(task)

    def _advance(self, task: int, done: int, work: int, text: str) -> None:
        self.done, self.work = done, self.work + work
        self.progress.advance(work, f"task {task + 1}/{self.stream.n_tasks}: {text}")

    def _measure(self, activity: str) -> None:
        """End the activity whose seconds are counted and begin another; "" begins none.

        It waits for the device, so that none pays for another's work. Costs nothing within one activity.
        """
        if activity == self._activity:
            return
        self.learner.runtime.wait()
        now = time.perf_counter()
        if self._activity:
            self.seconds[self._activity] = self.seconds.get(self._activity, 0.0) + now - self._since
        self._activity, self._since = activity, now

    def _safe_point(self, phase_ended: bool = False) -> None:
        """A point between two steps at which the run can be saved and stopped."""
        stopping, checkpoint = self._stopping.is_set(), self._checkpoint
        if checkpoint is not None and (phase_ended or stopping or checkpoint.due()):
            self._measure("checkpoint")
            checkpoint.begin_save(*self.state(self._events_size()))
        if stopping:
            raise KeyboardInterrupt

    def figures(self) -> dict[str, Any]:
        """The measured part of the finished run's row."""
        fewer = min(self.trainings) < self.learner.options.consolidations
        return {
            **self.recorder.summary(), "started": self.started, "seconds": sum(self.seconds.values()),
            "phase_seconds": dict(self.seconds), **({"task_trainings": self.trainings} if fewer else {}),
        }  # fmt: skip

    def state(self, metrics_size: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Everything that the rest of the run depends on: JSON values, and tensors."""
        parts = {"learner": self.learner.state(), "recorder": self.recorder.state()}
        settings = {
            "position": [self.phase, self.done, self.work], "started": self.started, "seconds": self.seconds,
            "metrics_size": metrics_size, **{part: state[0] for part, state in parts.items()},
        }  # fmt: skip
        return settings, {f"{part}.{name}": value for part, state in parts.items() for name, value in state[1].items()}

    def load_state(self, settings: dict[str, Any], tensors: dict[str, Tensor]) -> int:
        """Restore this state; returns how many bytes of events had been written."""
        try:
            self.phase, self.done, self.work = settings["position"]
            self.seconds, self.started = settings["seconds"], settings["started"]
            for part, owner in (("learner", self.learner), ("recorder", self.recorder)):
                own = {name.removeprefix(f"{part}."): v for name, v in tensors.items() if name.startswith(f"{part}.")}
                owner.load_state(settings[part], own)
            return settings["metrics_size"]
        except MISFITS as error:
            reason = f"{type(error).__name__}: {error}"
            raise DataError(
                f"the checkpoint is of another version ({reason}): --force starts the run afresh"
            ) from error

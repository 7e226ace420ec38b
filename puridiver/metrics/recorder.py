"""Watches a run from outside: compares predictions and memory with the true labels, and keeps the time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from puridiver.learner.learner import Learner
from puridiver.metrics.accuracy import (
    accuracy,
    accuracy_of_rows,
    anytime_area,
    backward_transfer,
    class_accuracies,
    confusion_matrix,
    forgetting,
    group_accuracies,
)
from puridiver.metrics.memory import memory_metrics, per_true_class, split_metrics
from puridiver.metrics.memory_snapshot import MemorySnapshot
from puridiver.metrics.memory_watch import MemoryWatch
from puridiver.metrics.stopwatch import Stopwatch
from puridiver.metrics.trace import memory_snapshot, split_trace
from puridiver.streams import Batch, TrueLabels
from puridiver.trainers import Sets

Event = dict[str, Any]
Point = tuple[int, float]  # samples seen, accuracy
EVALUATED_BYTES = 256 << 20  # images that are looked at in one go
OF_A_TASK = ("event", "task", "seen", "accuracy", "seen_accuracy", "group_accuracy")  # no figures of the whole run


class Recorder:
    """Measures a learner with knowledge that the learner does not have. It only ever reads the learner.

    Parameters
    ----------
    images, labels
        The evaluation set: uint8 (N, H, W, C) and class ids, the true ones where they are known.
    groups
        The major classes of each task, for forgetting.
    truth
        True labels of the stream by position.
    features
        Joint features of the whole train set in stream order, for diversity; or None.
    emit
        Called with every event (a dict) as it happens.
    clock
        Keeps the seconds of the run's phases; the run switches it.
    verified
        bool (N,): which labels of the evaluation set are true for certain; None: all of them, or nobody knows of any.
    watch
        Tells what enters and leaves the memory, in a run that is traced.
    """

    def __init__(
        self,
        images: Tensor,
        labels: Tensor,
        groups: Sequence[Sequence[int]],
        truth: TrueLabels,
        features: Tensor | None,
        emit: Callable[[Event], None],
        clock: Stopwatch,
        verified: Tensor | None = None,
        watch: MemoryWatch | None = None,
    ) -> None:
        self.watch = watch
        self.images, self.labels, self.verified, self.groups = images, labels, verified, groups
        self.truth, self.features, self.emit, self.clock = truth, features, emit, clock
        self.curve: list[Point] = []
        self.seen_curve: list[Point] | None = []  # on classes that had come; None: of an old checkpoint without it
        self.after_task: list[list[float]] = []
        self.task_events: list[Event] = []
        self.epoch_accuracies: list[float] = []  # of the current task's memory epochs, where measured
        self._positions: list[Tensor] = []
        self._alphas: list[Tensor] = []  # of the current task, a batch each
        self._alphas_told = 0  # how many of them the anytime points have had
        self.diverged = False  # what the network said of the evaluation set the last time was not finite

    def begin(self, learner: Learner) -> None:
        """Before the first batch, or before a run goes on that was left."""
        if self.watch is not None:
            self.watch.begin(learner)

    def saw(self, batch: Batch, learner: Learner) -> None:
        """Note a batch that the learner has observed."""
        self._positions.append(batch.positions)
        if "alpha" in (found := learner.sampler.diagnostics()):
            self._alphas.append(found["alpha"])
        if self.watch is not None:
            self.watch.look(learner, batch.task, self._stream_positions)

    def evaluate(self, learner: Learner, as_it_is: bool = False) -> Tensor:
        """The confusion matrix on the evaluation set, by what the learner predicts or by its network as it is."""
        return confusion_matrix(self._guesses(learner, as_it_is), self.labels, len(learner.classes))

    def _guesses(self, learner: Learner, as_it_is: bool = False) -> Tensor:
        # In parts, since the images of a large set lie in a file and may not all fit on the device.
        found = [torch.from_numpy(learner.predict_proba(part, as_it_is)) for part in self._parts()]
        self.diverged = not all(bool(part.isfinite().all()) for part in found)
        return torch.cat([part.argmax(dim=1) for part in found])

    def _parts(self) -> tuple[Tensor, ...]:
        return self.images.split(max(1, EVALUATED_BYTES // max(1, self.images[0].nbytes)))

    def anytime(self, learner: Learner, task: int) -> None:
        """A point of the anytime curve, with the memory's purity and the mean alpha since the last point."""
        found = self._noted(learner.seen, self.evaluate(learner))
        event = {"event": "anytime", "seen": learner.seen, "task": task, **found, **self._memory(learner)}
        since_last, self._alphas_told = self._alphas[self._alphas_told :], len(self._alphas)
        self.emit({**event, "alpha": _mean(since_last), **self._divergence()})

    def _noted(self, seen: int, confusion: Tensor) -> Event:
        """The accuracy at this moment, on all classes and on those that have come, as points of both curves."""
        found = {"accuracy": accuracy(confusion), "seen_accuracy": accuracy_of_rows(confusion, self._classes_so_far())}
        self.curve.append((seen, found["accuracy"]))
        if self.seen_curve is not None:
            self.seen_curve.append((seen, found["seen_accuracy"]))
        return found

    def epoch(self, learner: Learner, task: int, epoch: int, evaluate: bool) -> None:
        """After an epoch on the memory: how the trainer divided it, and the accuracy if that is wanted."""
        if self.watch is not None:  # samples that waited may have entered as the consolidation began
            self.watch.look(learner, task, self._stream_positions)
        event: Event = {"event": "epoch", "task": task, "epoch": epoch}
        if (sets := learner.trainer.sets) is not None:
            event |= self._split(sets)
        if evaluate:
            event |= {"accuracy": accuracy(self.evaluate(learner, as_it_is=True)), **self._divergence()}
            self.epoch_accuracies.append(event["accuracy"])
        if len(event) > 3:
            self.emit(event)

    def consolidated(self, learner: Learner, task: int) -> None:
        """After the last epoch of a training on the memory."""
        if self.watch is not None:
            self.watch.consolidated(learner, task, self._stream_positions)

    def task_ended(self, learner: Learner, task: int) -> Event:
        """After a task's stream and consolidation: everything."""
        guesses = self._guesses(learner)
        confusion = confusion_matrix(guesses, self.labels, len(learner.classes))
        found = self._noted(learner.seen, confusion)
        self.after_task.append(group_accuracies(confusion, self.groups))
        event: Event = {
            "event": "task",
            "task": task,
            "seen": learner.seen,
            **found,
            "class_accuracy": class_accuracies(confusion),
            "group_accuracy": self.after_task[-1],
            "alpha": _mean(self._alphas),
            **self._verified_alone(guesses),
            **self._memory(learner),
            **self._divergence(),
        }
        self._alphas, self._alphas_told = [], 0
        if (sets := learner.trainer.sets) is not None:
            event |= self._split(sets)
        if self.epoch_accuracies:
            event["best_epoch_accuracy"] = max(self.epoch_accuracies)
            self.epoch_accuracies = []
        self.task_events.append(event)
        self.emit({**event, "confusion": confusion.tolist(), **self._stream_so_far(len(learner.classes))})
        self.emit({"event": "split", "task": task, **split_trace(learner, self._true(learner.memory.samples.arrivals))})
        return event

    def summary(self) -> Event:
        """The whole run in a few figures; `last_accuracy` is the headline."""
        last = self.task_events[-1]
        kept = {k: v for k, v in last.items() if k not in OF_A_TASK}
        accuracies = [event["accuracy"] for event in self.task_events]
        of_seen: list[Any] = [event.get("seen_accuracy") for event in self.task_events]  # None in old checkpoints
        known = [value for value in of_seen if value is not None and not math.isnan(value)]  # nan: no test image yet
        return {
            "last_accuracy": last["accuracy"],
            "average_accuracy": sum(accuracies) / len(accuracies),
            "average_seen_accuracy": sum(known) / len(known) if known and None not in of_seen else None,
            "anytime_area": anytime_area(self.curve),
            "anytime_seen_area": self._anytime_seen_area(),
            "forgetting": forgetting(self.after_task),
            "backward_transfer": backward_transfer(self.after_task),
            "task_accuracy": accuracies,
            "task_seen_accuracy": of_seen,
            "task_group_accuracy": self.after_task,
            "task_purity": [event["memory_purity"] for event in self.task_events],
            **kept,
            "seconds": sum(self.clock.seconds.values()),
            "phase_seconds": dict(self.clock.seconds),
        }

    def _anytime_seen_area(self) -> float | None:
        if self.seen_curve is None:
            return None
        return anytime_area([point for point in self.seen_curve if not math.isnan(point[1])])  # nan: no test image yet

    def snapshot(self, learner: Learner) -> MemorySnapshot:
        """The memory as it is, with the learner's opinion and the true label of each sample."""
        return memory_snapshot(learner, self._true(learner.memory.samples.arrivals))

    def _classes_so_far(self) -> list[int]:
        """Those that a label has come of. With disjoint tasks nobody can name the others yet."""
        return self.truth.given_at(self._all_positions()).unique().tolist()

    def _stream_so_far(self, n_classes: int) -> Event:
        """How many samples of each class have arrived, by given and by true label."""
        positions = self._all_positions()
        given, true = self.truth.given_at(positions), self.truth.of(positions)
        return {
            "stream_per_class": given.bincount(minlength=n_classes).tolist(),
            "stream_per_true_class": per_true_class(true, n_classes),
        }

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Everything noted so far: figures, which are JSON, and tensors."""
        figures = {
            "curve": self.curve,
            "seen_curve": self.seen_curve,
            "after_task": self.after_task,
            "task_events": self.task_events,
            "epoch_accuracies": self.epoch_accuracies,
            "alphas_told": self._alphas_told,
        }
        positions = self._all_positions() if self._positions else torch.empty(0, dtype=torch.int64)
        return figures, {"positions": positions, **({"alphas": torch.stack(self._alphas)} if self._alphas else {})}

    def load_state(self, figures: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Go on from there; the clock is the run's to restore."""
        self.curve = [(seen, found) for seen, found in figures["curve"]]
        of_seen = figures.get("seen_curve")
        self.seen_curve = None if of_seen is None else [(seen, found) for seen, found in of_seen]
        self.after_task, self.task_events = list(figures["after_task"]), list(figures["task_events"])
        self.epoch_accuracies = list(figures["epoch_accuracies"])
        self._positions = [tensors["positions"]]
        alphas = tensors.get("alphas")
        self._alphas = [] if alphas is None else list(self.clock.runtime.move(alphas).unbind())
        self._alphas_told = figures.get("alphas_told", 0)  # older checkpoints kept only what was not told yet

    def _memory(self, learner: Learner) -> Event:
        samples = learner.memory.samples
        features = None
        if self.features is not None:
            features = self.features[self._stream_positions(samples.arrivals)]
        return memory_metrics(samples.labels.cpu(), self._true(samples.arrivals), len(learner.classes), features)

    def _split(self, sets: Sets) -> Event:
        # Given labels from the stream and not from the memory, which lies on the device: this must not wait for it.
        positions = self._stream_positions(sets.arrivals)
        return split_metrics(sets, self.truth.given_at(positions), self.truth.of(positions))

    def _stream_positions(self, arrivals: Tensor) -> Tensor:
        """Positions in the stream of the learner's arrivals: others where the run was shortened."""
        return self._all_positions()[arrivals.cpu()]

    def _all_positions(self) -> Tensor:
        """Of everything observed so far. Joined once: thousands of small tensors take milliseconds."""
        if len(self._positions) > 1:
            self._positions = [torch.cat(self._positions)]
        return self._positions[0]

    def _true(self, arrivals: Tensor) -> Tensor:
        return self.truth.of(self._stream_positions(arrivals))

    def _verified_alone(self, guesses: Tensor) -> Event:
        """Where the labels of some images alone are true for certain: how many, and how right."""
        if self.verified is None or bool(self.verified.all()):
            return {}
        right = (guesses == self.labels)[self.verified]
        verified_accuracy = float(right.double().mean()) if len(right) else None
        return {"evaluated": len(self.labels), "verified": len(right), "verified_accuracy": verified_accuracy}

    def _divergence(self) -> Event:
        """Told only where it is so: an accuracy by predictions that are nan is that of the first class."""
        return {"diverged": True} if self.diverged else {}


def _mean(values: list[Tensor]) -> float | None:
    return float(torch.stack(values).mean()) if values else None

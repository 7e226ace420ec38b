"""Watches a run from outside: compares predictions and memory with the true labels, and keeps a record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from puridiver.learner.learner import Learner
from puridiver.metrics import METRICS, Event, Record
from puridiver.metrics.history import MemoryWatch
from puridiver.metrics.measures import (
    accuracy,
    class_accuracies,
    confusion_matrix,
    memory_metrics,
    per_true_class,
    split_metrics,
    split_trace,
    take_snapshot,
)
from puridiver.metrics.memory_snapshot import MemorySnapshot
from puridiver.streams import Batch, TrueLabels
from puridiver.trainers import Sets

EVALUATED_BYTES = 256 << 20  # images that are evaluated in one go
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
    emit
        Called with every event (a dict) as it happens.
    features
        Joint features of the whole train set in stream order, for diversity; or None.
    verified
        bool (N,): which labels of the evaluation set are true for certain; None: all of them, or nobody knows of any.
    watch_memory
        Also emit which samples enter and leave the memory.
    """

    def __init__(
        self,
        images: Tensor,
        labels: Tensor,
        groups: Sequence[Sequence[int]],
        truth: TrueLabels,
        emit: Callable[[Event], None],
        features: Tensor | None = None,
        verified: Tensor | None = None,
        watch_memory: bool = False,
    ) -> None:
        self.images, self.labels, self.verified, self.groups = images, labels, verified, groups
        self.truth, self.features, self.emit = truth, features, emit
        self.watch = MemoryWatch(truth, emit) if watch_memory else None
        self.record = Record()
        self.diverged = False  # the network's last output on the evaluation set was not finite
        self._positions: list[Tensor] = []
        self._alphas: list[Tensor] = []  # of the current task, a batch each
        self._alphas_told = 0  # how many of them the anytime points have had

    def begin(self, learner: Learner) -> None:
        """Call it before the first batch, or before a run goes on that was left."""
        if self.watch is not None:
            self.watch.begin(learner)

    # What the run reports ---------------------------------------------------------------------------------------

    def saw(self, batch: Batch, learner: Learner) -> None:
        """Note a batch that the learner has observed."""
        self._positions.append(batch.positions)
        if "alpha" in (found := learner.sampler.diagnostics()):
            self._alphas.append(found["alpha"])
        if self.watch is not None:
            self.watch.compare(learner, batch.task, self._stream_positions)

    def anytime(self, learner: Learner, task: int) -> None:
        """Add a point of the anytime curve, with the memory's purity and the mean alpha since the last point."""
        confusion, _ = self.evaluate(learner)
        since_last, self._alphas_told = self._alphas[self._alphas_told :], len(self._alphas)
        self._note({
            "event": "anytime", "seen": learner.seen, "task": task, **self._accuracies(confusion),
            **self._memory(learner), "alpha": _mean(since_last), **self._divergence(),
        })  # fmt: skip

    def epoch(self, learner: Learner, task: int, epoch: int, number: int, evaluate: bool) -> None:
        """After an epoch on the memory, the `number`-th of the run: how the trainer divided it; its accuracy on demand.

        Without evaluation it does not wait for the device, which may still work on the epoch.
        """
        if self.watch is not None:  # samples that waited may have entered as the consolidation began
            self.watch.compare(learner, task, self._stream_positions)
        event: Event = {"event": "epoch", "task": task, "epoch": epoch, "number": number}
        if (sets := learner.trainer.sets) is not None:
            event |= self._split(sets)
        if evaluate:
            event["accuracy"] = accuracy(self.evaluate(learner, as_it_is=True)[0])
            self._note(event | self._divergence())
        elif sets is not None:
            self.emit(event)

    def consolidated(self, learner: Learner, task: int) -> None:
        """After the last epoch of a memory training."""
        if self.watch is not None:
            self.watch.consolidated(learner, task, self._stream_positions)

    def task_ended(self, learner: Learner, task: int) -> Event:
        """After a task's stream and consolidation: everything."""
        confusion, guesses = self.evaluate(learner)
        event: Event = {
            "event": "task",
            "task": task,
            "seen": learner.seen,
            **self._accuracies(confusion),
            "class_accuracy": class_accuracies(confusion),
            "group_accuracy": [accuracy(confusion, group) for group in self.groups],
            "alpha": _mean(self._alphas),
            **self._verified_alone(guesses),
            **self._memory(learner),
            **self._divergence(),
        }
        self._alphas, self._alphas_told = [], 0
        if (sets := learner.trainer.sets) is not None:
            event |= self._split(sets)
        self._note(event, confusion=confusion.tolist(), **self._stream_so_far(len(learner.classes)))
        self.emit({"event": "split", "task": task, **split_trace(learner, self._true(learner.memory.samples.arrivals))})
        return event

    # What comes of it -------------------------------------------------------------------------------------------

    def summary(self) -> Event:
        """The whole run in a few figures: every metric, the course over the tasks, and details of the last one."""
        tasks = self.record.tasks
        return {
            **{name: value for name, value in tasks[-1].items() if name not in OF_A_TASK},
            "task_accuracy": [event["accuracy"] for event in tasks],
            "task_seen_accuracy": [event["seen_accuracy"] for event in tasks],
            "task_group_accuracy": [event["group_accuracy"] for event in tasks],
            "task_purity": [event["memory_purity"] for event in tasks],
            **{name: metric.of(self.record) for name, metric in METRICS.items()},
        }

    def snapshot(self, learner: Learner) -> MemorySnapshot:
        """The memory as it is, with the learner's opinion and the true label of each sample."""
        return take_snapshot(learner, self._true(learner.memory.samples.arrivals))

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Everything noted so far: figures, which are JSON, and tensors."""
        figures = {"events": self.record.events, "alphas_told": self._alphas_told}
        positions = self._all_positions() if self._positions else torch.empty(0, dtype=torch.int64)
        return figures, {"positions": positions, **({"alphas": torch.stack(self._alphas)} if self._alphas else {})}

    def load_state(self, figures: dict[str, Any], tensors: dict[str, Tensor], device: torch.device) -> None:
        """Go on from there."""
        self.record = Record(figures["events"])
        self._positions, self._alphas_told = [tensors["positions"]], figures["alphas_told"]
        alphas = tensors.get("alphas")
        self._alphas = [] if alphas is None else list(alphas.to(device).unbind())

    # Measuring --------------------------------------------------------------------------------------------------

    def evaluate(self, learner: Learner, as_it_is: bool = False) -> tuple[Tensor, Tensor]:
        """The confusion matrix and the predictions on the evaluation set, by the learner or its network as it is."""
        # In parts, since the images of a large set lie in a file and may not all fit on the device.
        parts = self.images.split(max(1, EVALUATED_BYTES // max(1, self.images[0].nbytes)))
        found = [torch.from_numpy(learner.predict_proba(part, as_it_is)) for part in parts]
        self.diverged = not all(bool(part.isfinite().all()) for part in found)
        guesses = torch.cat([part.argmax(dim=1) for part in found])
        return confusion_matrix(guesses, self.labels, len(learner.classes)), guesses

    def _note(self, event: Event, **bulky: Any) -> None:
        """Keep an event and emit it; what is bulky is emitted alone."""
        self.record.events.append(event)
        self.emit({**event, **bulky})

    def _accuracies(self, confusion: Tensor) -> Event:
        """On all classes, and on those of which a label has come: with disjoint tasks nobody can name the others."""
        seen = self.truth.given_at(self._all_positions()).unique().tolist()
        return {"accuracy": accuracy(confusion), "seen_accuracy": accuracy(confusion, seen)}

    def _stream_so_far(self, n_classes: int) -> Event:
        """How many samples of each class have arrived, by given and by true label."""
        positions = self._all_positions()
        return {
            "stream_per_class": self.truth.given_at(positions).bincount(minlength=n_classes).tolist(),
            "stream_per_true_class": per_true_class(self.truth.of(positions), n_classes),
        }

    def _memory(self, learner: Learner) -> Event:
        samples, features = learner.memory.samples, None
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

"""Watches a run from outside: compares predictions and memory with the true labels, and keeps a record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from puridiver.learner.learner import Learner
from puridiver.metrics import METRICS, Event, Record, measures
from puridiver.metrics.history import MemoryWatch
from puridiver.metrics.memory_snapshot import MemorySnapshot
from puridiver.streams import Batch, TrueLabels

EVALUATED_BYTES = 256 << 20  # images that are evaluated in one go
OF_A_TASK = ("event", "task", "seen", "accuracy", "seen_accuracy", "group_accuracy")  # no figures of the whole run


class Recorder:
    """Measures a learner with knowledge that the learner does not have. It only ever reads the learner.

    Parameters
    ----------
    images, labels, verified
        The evaluation set: uint8 (N, H, W, C), class ids, and (bool) which of these are true for certain (None: all).
    groups
        The major classes of each task, for forgetting.
    truth, features
        True labels of the stream by position; joint features in stream order, for diversity.
    emit
        Called with every event (a dict) as it happens.
    watch_memory
        Also emit which samples enter and leave the memory.
    """

    def __init__(
        self, images: Tensor, labels: Tensor, groups: Sequence[Sequence[int]], truth: TrueLabels,
        emit: Callable[[Event], None], features: Tensor | None = None, verified: Tensor | None = None,
        watch_memory: bool = False,
    ) -> None:  # fmt: skip
        self.images, self.labels, self.verified, self.groups = images, labels, verified, groups
        self.truth, self.features, self.emit = truth, features, emit
        self.watch = MemoryWatch(truth, emit) if watch_memory else None
        self.record = Record()
        self._positions: list[Tensor] = []
        self._alphas: list[Tensor] = []  # of the current task, a batch each
        self._alphas_told = 0  # how many of them the anytime points have had

    def begin(self, learner: Learner) -> None:
        """Call it before the first batch, or before a run goes on that was left."""
        if self.watch is not None:
            self.watch.begin(learner)

    def saw(self, batch: Batch, learner: Learner) -> None:
        """Note a batch that the learner has observed."""
        self._positions.append(batch.positions)
        if "alpha" in (found := learner.sampler.diagnostics()):
            self._alphas.append(found["alpha"])
        if self.watch is not None:
            self.watch.compare(learner, batch.task, self._stream_positions)

    def anytime(self, learner: Learner, task: int) -> None:
        """Add a point of the anytime curve, with the memory's purity and the mean alpha since the last point."""
        found, _, _ = self.evaluate(learner)
        since_last, self._alphas_told = self._alphas[self._alphas_told :], len(self._alphas)
        event = {"event": "anytime", "seen": learner.seen, "task": task, **found, **self._memory(learner)}
        self._note({**event, "alpha": _mean(since_last)})

    def epoch(self, learner: Learner, task: int, epoch: int, number: int, evaluate: bool) -> None:
        """After an epoch on the memory, the `number`-th of the run: how the trainer divided it; its accuracy on demand.

        Without evaluation it does not wait for the device, which may still work on the epoch.
        """
        if self.watch is not None:  # samples that waited may have entered as the consolidation began
            self.watch.compare(learner, task, self._stream_positions)
        event: Event = {"event": "epoch", "task": task, "epoch": epoch, "number": number, **self._split(learner)}
        if evaluate:
            found, _, _ = self.evaluate(learner, as_it_is=True)
            self._note({**event, **{name: value for name, value in found.items() if name != "seen_accuracy"}})
        elif len(event) > 4:
            self.emit(event)

    def consolidated(self, learner: Learner, task: int) -> None:
        """After the last epoch of a memory training."""
        if self.watch is not None:
            self.watch.consolidated(learner, task, self._stream_positions)

    def task_ended(self, learner: Learner, task: int) -> Event:
        """After a task's stream and consolidation: everything."""
        found, confusion, guesses = self.evaluate(learner)
        recalls = confusion.diagonal().double() / confusion.sum(dim=1)  # nan for a class without test images
        event: Event = {
            "event": "task", "task": task, "seen": learner.seen, **found, "class_accuracy": recalls.tolist(),
            "group_accuracy": [measures.accuracy(confusion, group) for group in self.groups],
            "alpha": _mean(self._alphas), **self._memory(learner), **self._split(learner),
        }  # fmt: skip
        if self.verified is not None and not self.verified.all():
            right = (guesses == self.labels)[self.verified]
            share = float(right.double().mean()) if len(right) else None
            event |= {"evaluated": len(self.labels), "verified": len(right), "verified_accuracy": share}
        self._alphas, self._alphas_told = [], 0
        positions, n_classes = self._all_positions(), len(learner.classes)
        given, true = self.truth.given_at(positions), self.truth.of(positions)
        self._note(
            event, confusion=confusion.tolist(), stream_per_class=measures.per_class(given, n_classes),
            stream_per_true_class=measures.per_class(true, n_classes),
        )  # fmt: skip
        of_memory = self._true(learner.memory.samples.arrivals)
        self.emit({"event": "split", "task": task, **measures.split_trace(learner, of_memory)})
        return event

    def summary(self) -> Event:
        """The whole run in a few figures: every metric, the course over the tasks, and details of the last one."""
        tasks = self.record.tasks
        courses = {"accuracy": "accuracy", "seen_accuracy": "seen_accuracy", "group_accuracy": "group_accuracy",
                   "purity": "memory_purity"}  # fmt: skip
        return {
            **{name: value for name, value in tasks[-1].items() if name not in OF_A_TASK},
            **{f"task_{name}": [event[of] for event in tasks] for name, of in courses.items()},
            **{name: metric.of(self.record) for name, metric in METRICS.items()},
        }

    def snapshot(self, learner: Learner) -> MemorySnapshot:
        """The memory as it is, with the learner's opinion and the true label of each sample."""
        return measures.take_snapshot(learner, self._true(learner.memory.samples.arrivals))

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Everything noted so far: figures, which are JSON, and tensors."""
        figures = {"events": self.record.events, "alphas_told": self._alphas_told}
        positions = self._all_positions() if self._positions else torch.empty(0, dtype=torch.int64)
        return figures, {"positions": positions, **({"alphas": torch.stack(self._alphas)} if self._alphas else {})}

    def load_state(self, figures: dict[str, Any], tensors: dict[str, Tensor], device: torch.device) -> None:
        """Go on from there."""
        self.record = Record(figures["events"])
        self._positions, self._alphas_told = [tensors["positions"]], figures["alphas_told"]
        self._alphas = list(tensors["alphas"].to(device).unbind()) if "alphas" in tensors else []

    def evaluate(self, learner: Learner, as_it_is: bool = False) -> tuple[Event, Tensor, Tensor]:
        """Accuracies on the evaluation set, the confusion matrix and the predictions.

        By what the learner predicts, or by its network as it is. `seen_accuracy` is that on classes of which a label
        has come. `diverged` is told only where it is so: predictions that are nan are of the first class.
        """
        # In parts, since the images of a large set lie in a file and may not all fit on the device.
        parts = self.images.split(max(1, EVALUATED_BYTES // max(1, self.images[0].nbytes)))
        found = [torch.from_numpy(learner.predict_proba(part, as_it_is)) for part in parts]
        guesses = torch.cat([part.argmax(dim=1) for part in found])
        confusion = measures.confusion_matrix(guesses, self.labels, len(learner.classes))
        seen = self.truth.given_at(self._all_positions()).unique().tolist()
        told = {"accuracy": measures.accuracy(confusion), "seen_accuracy": measures.accuracy(confusion, seen)}
        diverged = not all(bool(part.isfinite().all()) for part in found)
        return {**told, **({"diverged": True} if diverged else {})}, confusion, guesses

    def _note(self, event: Event, **bulky: Any) -> None:
        """Keep an event and emit it; what is bulky is emitted alone."""
        self.record.events.append(event)
        self.emit({**event, **bulky})

    def _memory(self, learner: Learner) -> Event:
        samples = learner.memory.samples
        features = None if self.features is None else self.features[self._stream_positions(samples.arrivals)]
        true = self._true(samples.arrivals)
        return measures.memory_metrics(samples.labels.cpu(), true, len(learner.classes), features)

    def _split(self, learner: Learner) -> Event:
        """How the trainer divided the memory, if it does."""
        if (sets := learner.trainer.sets) is None:
            return {}
        # Given labels from the stream and not from the memory, which lies on the device: this must not wait for it.
        positions = self._stream_positions(sets.arrivals)
        return measures.split_metrics(sets, self.truth.given_at(positions), self.truth.of(positions))

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


def _mean(values: list[Tensor]) -> float | None:
    return float(torch.stack(values).mean()) if values else None

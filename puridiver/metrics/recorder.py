"""Measures a run from outside: compares predictions and memory with the true labels."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from puridiver.data.base import ImageSet
from puridiver.learner.learner import Learner
from puridiver.metrics import METRICS, Event, Record, measures
from puridiver.streams import TrueLabels
from puridiver.trainers import Sets

EVALUATED_BYTES = 256 << 20  # images that are evaluated in one go
OF_A_TASK = ("event", "task", "seen", "accuracy", "seen_accuracy", "group_accuracy")  # no figures of the whole run
COURSES = ("accuracy", "seen_accuracy", "group_accuracy", "memory_purity")  # of the tasks, in the summary


class Recorder:
    """Measures a learner with knowledge that the learner does not have. It only ever reads the learner.

    Parameters
    ----------
    evaluation
        What accuracy is measured on.
    groups
        The major classes of each task, for forgetting.
    truth, features
        True labels and joint features (for diversity) of the stream, by arrival.
    emit
        Called with every event (a dict) as it happens.
    """

    def __init__(
        self, learner: Learner, evaluation: ImageSet, groups: Sequence[Sequence[int]], truth: TrueLabels,
        emit: Callable[[Event], None], features: Tensor | None = None,
    ) -> None:  # fmt: skip
        self.learner, self.evaluation, self.groups = learner, evaluation, groups
        self.truth, self.emit, self.features = truth, emit, features
        self.record = Record()
        self.alphas: list[Tensor] = []  # of the current task, a batch each
        self.alphas_told = 0  # how many of them the anytime points have had
        self.arrivals = [0, 0]  # samples whose true label is known, and those of them that were named on arrival

    def arrived(self, images: Tensor) -> None:
        """Before a batch is learnt: compare what the learner predicts with the true labels."""
        guesses = torch.from_numpy(self.learner.predict_proba(images)).argmax(dim=1)
        true = self.truth.true[self.learner.seen : self.learner.seen + len(images)]
        for k, found in enumerate((true >= 0, guesses == true)):
            self.arrivals[k] += int(found.sum())

    def observed(self) -> None:
        """After a batch."""
        if "alpha" in (found := self.learner.sampler.diagnostics()):
            self.alphas.append(found["alpha"])

    def anytime(self, task: int) -> None:
        """Add a point of the anytime curve, with the memory's purity and the mean alpha since the last point."""
        since_last, self.alphas_told = self.alphas[self.alphas_told :], len(self.alphas)
        event = {"event": "anytime", "seen": self.learner.seen, "task": task, **self.evaluate()[0], **self._memory()}
        self._note({**event, "alpha": _mean(since_last)})

    def epoch(self, task: int, epoch: int, number: int, evaluate: bool) -> None:
        """After an epoch on the memory, the `number`-th of the run: how the trainer divided it; its accuracy on demand.

        Without evaluation it does not wait for the device, which may still work on the epoch.
        """
        sets = self.learner.trainer.sets
        event: Event = {"event": "epoch", "task": task, "epoch": epoch, "number": number, **self._split(sets)}
        if evaluate:
            found = self.evaluate(as_it_is=True)[0]
            del found["seen_accuracy"]
            self._note(event | found)
        elif sets is not None:
            self.emit(event)

    def task_ended(self, task: int) -> Event:
        """After a task's stream and consolidation: everything."""
        learner, samples = self.learner, self.learner.memory.samples
        found, confusion, guesses = self.evaluate()
        recalls = confusion.diagonal().double() / confusion.sum(dim=1)  # nan for a class without test images
        split = learner.split()
        event: Event = {
            "event": "task", "task": task, "seen": learner.seen, **found, "class_accuracy": recalls.tolist(),
            "group_accuracy": [measures.accuracy(confusion, group) for group in self.groups],
            "alpha": _mean(self.alphas), **self._memory(), **self._live(),
            **self._split(None if learner.trainer.sets is None else split.sets()),
        }  # fmt: skip
        labels, verified = self.evaluation.labels, self.evaluation.verified
        if verified is not None and not verified.all():
            right = (guesses == labels)[verified]
            share = float(right.double().mean()) if len(right) else None
            event |= {"evaluated": len(labels), "verified": len(right), "verified_accuracy": share}
        self.alphas, self.alphas_told = [], 0
        self.record.append(event)
        self.emit({**event, "confusion": confusion.tolist()})  # too bulky for the record
        trace = measures.split_trace(split, samples.labels.cpu(), self.truth.true[samples.arrivals.cpu()])
        self.emit({"event": "split", "task": task, **trace})
        return event

    def summary(self) -> Event:
        """The whole run in a few figures: every metric, the course over the tasks, and details of the last one."""
        tasks = [event for event in self.record if event["event"] == "task"]
        found = {name: value for name, value in tasks[-1].items() if name not in OF_A_TASK}
        for name in COURSES:
            found[f"task_{name.removeprefix('memory_')}"] = [event[name] for event in tasks]
        for name, metric in METRICS.items():
            value = float(metric.of(self.record))
            found[name] = None if math.isnan(value) else value
        return found

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Everything recorded so far: JSON values, and tensors."""
        tensors = {"alphas": torch.stack(self.alphas)} if self.alphas else {}
        return {"events": self.record, "alphas_told": self.alphas_told, "arrivals": self.arrivals}, tensors

    def load_state(self, figures: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Restore what `state` returned."""
        self.record, self.alphas_told = Record(figures["events"]), figures["alphas_told"]
        self.arrivals = figures["arrivals"]
        device = self.learner.runtime.device
        self.alphas = list(tensors["alphas"].to(device).unbind()) if "alphas" in tensors else []

    def evaluate(self, as_it_is: bool = False) -> tuple[Event, Tensor, Tensor]:
        """Accuracies on the evaluation set, the confusion matrix and the predictions.

        By what the learner predicts, or by its network as it is. `seen_accuracy` is that on classes of which a label
        has come. `diverged` is there only if predictions are nan, which count as the first class.
        """
        # In parts, since the images of a large set lie in a file and may not all fit on the device.
        images, learner = self.evaluation.images, self.learner
        parts = images.split(max(1, EVALUATED_BYTES // max(1, images[0].nbytes)))
        found = torch.cat([torch.from_numpy(learner.predict_proba(part, as_it_is)) for part in parts])
        guesses = found.argmax(dim=1)
        confusion = measures.confusion_matrix(guesses, self.evaluation.labels, len(learner.classes))
        seen = self.truth.given[: learner.seen].unique().tolist()
        told = {"accuracy": measures.accuracy(confusion), "seen_accuracy": measures.accuracy(confusion, seen)}
        return {**told, **({} if found.isfinite().all() else {"diverged": True})}, confusion, guesses

    def _note(self, event: Event) -> None:
        self.record.append(event)
        self.emit(event)

    def _memory(self) -> Event:
        samples = self.learner.memory.samples
        arrivals, n_classes = samples.arrivals.cpu(), len(self.learner.classes)
        features = None if self.features is None else self.features[arrivals]
        return measures.memory_metrics(samples.labels.cpu(), self.truth.true[arrivals], n_classes, features)

    def _live(self) -> Event:
        """The share of all arrivals so far that were predicted rightly, where that is measured."""
        known, right = self.arrivals
        return {"live_accuracy": right / known} if known else {}

    def _split(self, sets: Sets | None) -> Event:
        """How right the division of the memory is, if the trainer divides it."""
        if sets is None:
            return {}
        # Given labels from the stream and not from the memory, which lies on the device: this must not wait for it.
        return measures.split_metrics(sets, self.truth.given[sets.arrivals], self.truth.true[sets.arrivals])


def _mean(values: list[Tensor]) -> float | None:
    return float(torch.stack(values).mean()) if values else None

"""Which weights answer: the live network's, a snapshot's, or both together. Nobody else knows."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver.errors import DivergedError
from puridiver.learner.inputs import Label, label_array
from puridiver.runtime.model import TrainableModel
from puridiver.runtime.snapshots import Snapshot
from puridiver.trainers import Trainer

# After this many epochs a low of the rate is good enough to answer: on digits' validation images, under three noises
# in four tasks, it beats the state before in 11 of 12 cases after seven epochs, and in 4 after three.
FEWEST_EPOCHS = 7
FAIR_ENOUGH = 0.5  # of a fair share of the memory, for a class to count as taught

Snapshots = list[Snapshot]  # one of each network


@dataclass(frozen=True)
class _Answer:
    """What answers until the next change. Nothing in it changes, so any thread may read it."""

    labels: np.ndarray  # of the columns of the probabilities
    now: Snapshots | None  # None: the live networks, for readers that hold the lock
    then: Snapshots | None = None  # answers beside `now` for classes that were `taught`
    taught: Tensor | None = None


class Predictor:
    """Decides what `online_prediction` means for a trainer's networks, and answers.

    Between two consolidations the snapshot of the last one answers ("consolidated"), or its mean with the live network
    ("both"), or the live network alone ("network"). The live network always answers for classes that the snapshot saw
    too little of.

    During a consolidation what answered before goes on to, until the rate comes to a low (`FEWEST_EPOCHS` or later);
    with "network" the live network answers, as it was after the last epoch. If the consolidation stops early, what
    answered meanwhile stays. Weights from before the first one stay only until the network learns on.

    On a CPU `publish` copies the live network after each change, so that a prediction waits for nobody. On a GPU
    captured passes refer to fixed addresses, so a prediction holds the learner's lock instead.
    """

    _answer: _Answer

    def __init__(self, trainer: Trainer, classes: Sequence[Label]) -> None:
        self._trainer, self._mode = trainer, trainer.options.online_prediction
        self.waits = trainer.runtime.device.type != "cpu"  # a prediction needs the lock
        self._learnt_online = False  # since the last consolidation
        self._taught: Tensor | None = None  # (classes of then,): 1 for those that the last one taught well
        self._kept: Snapshots | None = None  # as the last consolidation left the networks
        self._serving: Snapshots | None = None  # answers while a consolidation goes on
        self._served: Tensor | None = None  # as `taught`: of what answers meanwhile
        self._served_jointly = False  # by `serving` and `kept`
        self._provisional = False  # what answers, or is to if this consolidation stops, is from before the first one
        self.publish(classes)

    def publish(self, classes: Sequence[Label] | None = None, learnt_online: bool = False) -> None:
        """Let predictions see the networks as they are now.

        Classes are given where new ones have joined; `learnt_online`: the networks have just learnt from the stream.
        """
        if learnt_online:
            if self._provisional:
                self._kept, self._taught, self._provisional = None, None, False
            self._learnt_online = True
        labels = self._answer.labels if classes is None else label_array(list(classes))
        now, then, taught = self._serving, self._kept if self._served_jointly else None, self._served
        if now is None:
            then, taught = self._kept if self._learnt_online else None, self._taught
            now = None if self.waits else self._snapshots()
        self._answer = _Answer(labels, now, then, taught)

    def predict(self, images: Tensor, live: bool = False) -> tuple[Tensor, np.ndarray]:
        """Probabilities (N, C) of uint8 images, and the labels of their columns. `live` readers hold the lock."""
        answer, infer = self._answer, self._trainer.inference
        now, then = (None, None) if live else (answer.now, answer.then)
        found = self._trainer.probabilities(lambda k: infer[k](images, now[k] if now else None).logits)
        if then is None or answer.taught is None:
            return found, answer.labels
        kept = self._trainer.probabilities(lambda k: infer[k](images, then[k]).logits)
        return joined(found, kept, answer.taught, self._mode == "consolidated"), answer.labels

    # Changes ---------------------------------------------------------------------------------------------------

    def begin(self, labels: Tensor, n_classes: int) -> None:
        """A consolidation on a memory with these labels begins; the networks are still as they were."""
        before, self._taught = self._taught, well_taught(labels, n_classes)
        if self._mode != "network" and (before is not None or self._learnt_online):
            self._serving = self._snapshots()
            # Before the first consolidation nothing was taught: the stream has shown what the memory holds.
            self._served = self._taught if before is None else before
            self._served_jointly = self._learnt_online and self._kept is not None
            self._provisional = self._provisional or before is None
        self._learnt_online = False
        self.publish()

    def after_epoch(self, epochs_done: int, is_last: bool, is_low: bool) -> None:
        """An epoch is over; at a low of the rate, and at the end, the networks are good enough to answer."""
        if is_last:
            self._serving, self._served, self._served_jointly = None, None, False
        elif is_low and self._serving is not None and epochs_done >= FEWEST_EPOCHS:
            self._serving = self._snapshots(self._serving)
            self._served, self._served_jointly, self._provisional = self._taught, False, False
        self.publish()

    def end(self) -> None:
        """The consolidation is over, at its end or before."""
        if self._serving is not None:  # before
            if not self._served_jointly:
                self._kept = self._serving
            self._taught = self._served
            self._learnt_online = True  # the networks are others than what answers
            self._serving, self._served, self._served_jointly = None, None, False
        else:
            self._provisional = False
            if self._mode != "network":
                self._kept = self._snapshots(self._kept) if self._trainer.learns_online else None
        self.publish()

    def _snapshots(self, older: Snapshots | None = None) -> Snapshots:
        return list(map(TrainableModel.snapshot, self._trainer.models, older or itertools.repeat(None)))

    # State -----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        found = {"learnt_online": torch.tensor(self._learnt_online)}
        if self._provisional:
            found["provisional"] = torch.tensor(True)
        if self._taught is not None:
            found["taught"] = self._taught
        if self._served is not None:
            found["served_jointly" if self._served_jointly else "served"] = self._served
        for name, snapshots in (("kept", self._kept), ("serving", self._serving)):
            for k, snapshot in enumerate(snapshots or []):
                found |= {f"{name}{k}.{key}": value for key, value in snapshot.tensors.items()}
        return found

    def load_state(self, tensors: Mapping[str, Tensor], classes: Sequence[Label]) -> None:
        """Go back to a `state`, once the trainer has gone back to its own."""
        moved = {key: self._trainer.runtime.move(value) for key, value in tensors.items()}
        self._learnt_online, self._provisional = bool(tensors["learnt_online"]), "provisional" in tensors
        self._served_jointly = "served_jointly" in tensors
        self._taught, self._served = moved.get("taught"), moved.get("served_jointly", moved.get("served"))
        for name in ("kept", "serving"):
            found: Snapshots = []
            for k, model in enumerate(self._trainer.models):
                prefix = f"{name}{k}."
                own = {key.removeprefix(prefix): value for key, value in moved.items() if key.startswith(prefix)}
                found += [model.loaded_snapshot(own)] if own else []
            setattr(self, f"_{name}", found or None)
        self.publish(classes)


def well_taught(labels: Tensor, n_classes: int) -> Tensor:
    """1 for each class that has at least half a fair share of a memory's labels, else 0: (C,).

    A network learns next to nothing about a class from a sample or two, while the stream may soon bring many.
    """
    counts = F.one_hot(labels, n_classes).sum(dim=0)
    fair_share = counts.sum() / (counts > 0).sum().clamp(min=1)
    return (counts >= FAIR_ENOUGH * fair_share).float()


def joined(now: Tensor, then: Tensor, taught: Tensor, then_alone: bool) -> Tensor:
    """Predictions of the live network (`now`) and of a snapshot (`then`) together, (N, C).

    `now` is (N, C); `then` (N, C') and `taught` (C',), 1 or 0, know the classes of the snapshot. `now` alone answers
    for classes that were not taught or came since. The others share the rest, by `then` or by the mean of both.
    """
    n_new = now.shape[1] - len(taught)
    taught = F.pad(taught, (0, n_new))
    then = F.pad(then, (0, n_new)) * taught
    left = (now * taught).sum(dim=1, keepdim=True)
    then = left * then / then.sum(dim=1, keepdim=True).clamp(min=1e-12)
    old = then if then_alone else (then + now * taught) / 2
    return old + now * (1 - taught)


def check_finite(probabilities: np.ndarray) -> None:
    """Raise a `DivergedError` for nan: its likeliest class would be the first one, whatever the image."""
    if not np.isfinite(probabilities).all():
        raise DivergedError(
            "the network predicts nan: its training has diverged, and it will not recover; load an earlier save, or "
            "make a learner with a lower rate (online_lr, lr)"
        )

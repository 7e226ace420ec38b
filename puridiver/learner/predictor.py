"""Which weights answer a prediction: the live network's, steadier ones, or both together. Nobody else knows."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver.errors import DivergedError
from puridiver.learner.inputs import Label
from puridiver.nets import without_row
from puridiver.runtime.model import TrainableModel, Weights
from puridiver.trainers import Trainer

FAIR_ENOUGH = 0.5  # of a fair share of the memory, for a class to count as taught
SNAPSHOT_SHARES = {"network": 0.0, "consolidated": 1.0, "both": 0.5, "weighed": 0.5}  # by `online_prediction`
EVIDENCE_DECAY = 0.98  # a batch: evidence counts for about 50 batches
EVIDENCE_SCALE = 40.0  # a lead of five points in agreement gives a share of 88 %
COMPARED = 4  # every fourth arrival is, with its batch: two passes of a single image cost a third of its step
AVERAGE_FIRST = 1.0  # without evidence a moving average has a share of 73 %: the network is worse after memory training

Snapshots = list[Weights]  # one of each network
Ensemble = list[Snapshots]  # their mean answers


class _Kept(NamedTuple):
    """Steadier networks, of the last learning-rate minima of memory training, and the classes that it taught well.

    Or the moving averages of the weights, which know every class.
    """

    networks: Ensemble
    taught: Tensor  # (classes of then,): 1 or 0


class _Answer(NamedTuple):
    """What answers until the next change. Nothing in it changes, so any thread may read it."""

    labels: np.ndarray  # of the columns of the probabilities
    now: Ensemble | None  # None: the live networks, for readers that hold the lock
    kept: _Kept | None = None  # answers beside `now` for the classes that it was taught
    share: float | Tensor = 1.0  # of `kept` in these


class FrozenAnswer(NamedTuple):
    """What answers at one moment."""

    labels: np.ndarray  # of the columns of the probabilities
    probabilities: Callable[[Tensor], Tensor]  # (N, C) of uint8 images on the device


class Predictor:
    """Decides which of a trainer's weights answer, by the option `online_prediction`.

    - "network": the live network, during memory training as it was after the last epoch.
    - "consolidated", "both": once the network has learnt from the stream, the snapshot of the last memory training, or
      its mean with the live network. The live network alone answers for classes that the snapshot saw too little of.
      While memory training runs, and if it stops early, the previous answer holds until a learning-rate minimum.
    - "weighed": the same, with the share of each by how well it named the labels that arrived since, before the
      network learnt them. Wrong labels disturb both alike, and every class counts the same, so that neither a network
      that forgets nor a snapshot that stands still takes over. With the option `online_average` the moving average
      takes the snapshot's place, and during memory training the network alone answers, as after the last epoch.

    On a CPU `publish` copies the live network after each change, so that a prediction waits for nobody. On a GPU
    captured passes refer to fixed addresses, so a prediction holds the learner's lock instead.
    """

    def __init__(self, trainer: Trainer, classes: Sequence[Label]) -> None:
        self._trainer, mode = trainer, trainer.options.online_prediction
        self.weighs = mode == "weighed" and trainer.learns_online  # else the live network does not change
        self._averages = self.weighs and trainer.options.online_average > 0
        self._keeps, self._share = mode != "network" and not self._averages, SNAPSHOT_SHARES[mode]
        self.needs_lock = trainer.runtime.device.type != "cpu"
        self._kept: _Kept | None = None
        self._pool: Ensemble = []  # whose places the snapshots of the next minima take
        self._minima = 0  # of the memory training under way, or of the last
        self._held: _Answer | None = None  # answers, whatever the live network does, until that learns from the stream
        # (3, C): decayed counts of arrivals that the network named, that the snapshot named, and of all.
        self._evidence = torch.zeros(3, 0, device=trainer.runtime.device)
        self.grow(classes)

    def predict(self, images: Tensor, live: bool = False) -> tuple[Tensor, np.ndarray]:
        """Probabilities (N, C) of uint8 images, and the labels of their columns; `live` readers hold the lock."""
        answer = self._answer
        now, kept = (None, None) if live else (answer.now, answer.kept)
        found = self._probabilities(images, now)
        if kept is None:
            return found, answer.labels
        return joined(found, self._probabilities(images, kept.networks), kept.taught, answer.share), answer.labels

    def _probabilities(self, images: Tensor, ensemble: Ensemble | None = None, averaged: bool = False) -> Tensor:
        """The mean answer of an ensemble, or the answer of the live networks, or of their averages, (N, C)."""
        found = []
        members: Sequence[Snapshots | None] = ensemble or [None]
        for member in members:
            found.append(self._trainer.probabilities(partial(self._logits, images, member, averaged)))
        return found[0] if len(found) == 1 else torch.stack(found).mean(dim=0)

    def _logits(self, images: Tensor, member: Snapshots | None, averaged: bool, k: int) -> Tensor:
        """The logits of network k, as a member of an ensemble, averaged, or as it is."""
        live = self.weighs and not averaged
        return self._trainer.models[k].outputs(images, member[k] if member else None, live=live).logits

    def judge(
        self, images: Tensor, labels: Tensor, is_new: Sequence[bool], seen: int, wanted: bool = True
    ) -> Tensor | None:
        """What answers now says of arriving images, before these are learnt: probabilities (N, C).

        A moving average speaks alone, except where the label is of a new class (`is_new`): the network learns new
        classes sooner than its average, but wrong labels, too.

        The live network and the snapshot are compared on their way, by the class ids that came with the images. Of
        single images after `seen` others every fourth compares network and average. Where nothing is compared, it takes
        a pass that is made only if it is `wanted`.
        """
        if self._kept is None or not self.weighs:
            live = self._kept is None and self._held is None  # then what answers is a copy of the live networks
            return self.predict(images, live)[0] if wanted else None
        compares = not self._averages or any(is_new) or (seen + len(images)) // COMPARED > seen // COMPARED
        if not (compares or wanted):
            return None
        then = self._probabilities(images, None if self._averages else self._kept.networks, self._averages)
        if not compares:
            return then
        now = self._probabilities(images)
        found = joined(now, then, self._kept.taught, self._weighed_share())
        if self._averages:
            found = torch.where(self._trainer.runtime.move(torch.tensor(is_new))[:, None], found, then)
        named = now.argmax(dim=1) == labels, then.argmax(dim=1) == labels
        hits = torch.stack([*named, torch.ones_like(labels, dtype=torch.bool)]).float()
        grown = F.pad(self._evidence, (0, self._trainer.n_classes - self._evidence.shape[1]))
        self._evidence = EVIDENCE_DECAY * grown + hits @ self._trainer.one_hot(labels)
        return found

    def frozen(self) -> FrozenAnswer:
        """What answers now, for any thread and for good; where `needs_lock`, the caller holds the lock."""
        answer, kept = self._answer, self._answer.kept
        now = self._frozen([self._snapshots(live=self.weighs)] if answer.now is None else answer.now)
        if kept is None:
            return FrozenAnswer(answer.labels, now)
        share = answer.share.clone() if isinstance(answer.share, Tensor) else answer.share
        then, taught = self._frozen(kept.networks), kept.taught.clone()
        return FrozenAnswer(answer.labels, lambda images: joined(now(images), then(images), taught, share))

    def _frozen(self, ensemble: Ensemble) -> Callable[[Tensor], Tensor]:
        """The mean answer of an ensemble in networks of its own."""
        trainer = self._trainer
        members = [[m.frozen(one) for m, one in zip(trainer.models, each, strict=True)] for each in ensemble]

        def probabilities(images: Tensor) -> Tensor:
            found = [trainer.probabilities(lambda k, own=own: own[k](images)) for own in members]  # type: ignore[misc]
            return torch.stack(found).mean(dim=0)

        return probabilities

    # Changes; the caller holds the lock --------------------------------------------------------------------------

    def publish(self, learnt_online: bool = False) -> None:
        """Let predictions see the networks as they are now; `learnt_online`: they have learnt from the stream."""
        if learnt_online:
            self._held = None
        if self._averages:
            self._keep_averages()
        now = None if self.needs_lock else [self._snapshots(live=self.weighs)]
        self._answer = self._held or self._with_kept(now)

    def _keep_averages(self) -> None:
        models, n_classes = self._trainer.models, self._trainer.n_classes
        if not models[0].through_average:  # memory training: the averages stand still
            self._kept, self._evidence = None, torch.zeros_like(self._evidence)
            return
        self._pool = [self._snapshots(self._pool[0] if self._pool else None)]
        self._kept = _Kept(self._pool, torch.ones(n_classes, device=self._trainer.runtime.device))

    def _with_kept(self, now: Ensemble | None) -> _Answer:
        return _Answer(self._labels, now, self._kept, self._weighed_share() if self.weighs else self._share)

    def _weighed_share(self) -> Tensor:
        return snapshot_share(self._evidence, AVERAGE_FIRST if self._averages else 0.0)

    def grow(self, classes: Sequence[Label]) -> None:
        """The networks know these classes from now on."""
        self._labels, self._held = np.array(list(classes)), None
        self.publish()

    def drop_class(self, number: int, classes: Sequence[Label]) -> None:
        """The networks no longer know the class of this number, but these; call it after the trainer's own."""
        kept, held = None if self._averages else self._kept, self._held

        def without(ensemble: Ensemble) -> Ensemble:
            return [[one.without_class(number) for one in each] for each in ensemble]

        self._labels, self._pool = np.array(list(classes)), without(self._pool)
        self._evidence = without_row(self._evidence.T, number).T
        if kept is not None:
            self._kept = _Kept(self._pool[: len(kept.networks)], without_row(kept.taught, number))
        if held is not None and held.now is not None:
            now = self._kept.networks if self._kept and kept and held.now is kept.networks else without(held.now)
            self._held = held._replace(labels=self._labels, now=now, kept=self._kept if held.kept else None)
        self.publish()

    def hold(self, begins: bool) -> None:
        """Memory training begins, or a saved one continues: let what answers now go on to."""
        has_learnt = self._kept is not None or self._trainer.learns_online
        if self._keeps and self._held is None and has_learnt:
            self._held = self._with_kept([self._snapshots(live=self.weighs)])
        if begins:
            self._minima = 0
        self.publish()

    def keep(self, labels: Tensor) -> None:
        """Memory training on these class ids is at a minimum of its rate: let the networks as they are now answer."""
        if self._keeps:
            place = self._minima % self._trainer.options.snapshots  # the oldest makes room
            older = self._pool[place] if place < len(self._pool) else None
            self._pool[place : place + 1] = [self._snapshots(older)]
            self._minima += 1
            networks = self._pool[: self._minima]
            self._kept = _Kept(networks, well_taught(labels, self._trainer.n_classes))
            self._held = _Answer(self._labels, networks)
            self._evidence = torch.zeros_like(self._evidence)  # of the snapshot before
        self.publish()

    def _snapshots(self, older: Snapshots | None = None, live: bool = False) -> Snapshots:
        return list(map(TrainableModel.snapshot, self._trainer.models, older or repeat(None), repeat(live)))

    # State -------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        kept, held = None if self._averages else self._kept, self._held
        found = {"evidence": self._evidence, "minima": torch.tensor(self._minima)}
        if kept is not None:
            found |= {"taught": kept.taught, **_named("kept", kept.networks)}
        if held is not None:
            found["held_jointly"] = torch.tensor(held.kept is not None)
            if kept is None or held.now is not kept.networks:
                found |= _named("held", held.now or [])
        return found

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Go back to a `state`, once the trainer has gone back to its own and the classes are known."""
        networks = self._loaded("kept", tensors)
        self._pool, self._minima = list(networks), int(tensors["minima"])
        self._kept = _Kept(networks, self._trainer.runtime.move(tensors["taught"])) if networks else None
        if self._kept is not None and self._kept.taught.shape != networks[0][0].tensors["head.linear.weight"].shape[:1]:
            raise ValueError(f"taught should have a value for each class, but is {tuple(self._kept.taught.shape)}")
        self._held, self._evidence = None, self._trainer.runtime.move(tensors["evidence"])
        if self._evidence.ndim != 2 or len(self._evidence) != 3 or not self._evidence.is_floating_point():
            raise ValueError(f"evidence should be (3, classes), but is {tuple(self._evidence.shape)}")
        if "held_jointly" in tensors:
            held = self._loaded("held", tensors) or networks
            self._held = self._with_kept(held) if bool(tensors["held_jointly"]) else _Answer(self._labels, held)
        self.publish()

    def _loaded(self, name: str, tensors: Mapping[str, Tensor]) -> Ensemble:
        found: dict[str, Snapshots] = {}
        for member in range(self._trainer.options.snapshots):
            for k, model in enumerate(self._trainer.models):
                prefix = f"{name}{member}.{k}."
                own = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
                if own:
                    found.setdefault(prefix[:-2], []).append(model.loaded_snapshot(own))
        return list(found.values())


def _named(name: str, ensemble: Ensemble) -> dict[str, Tensor]:
    return {
        f"{name}{member}.{k}.{key}": value
        for member, snapshots in enumerate(ensemble)
        for k, each in enumerate(snapshots)
        for key, value in each.tensors.items()
    }


def well_taught(labels: Tensor, n_classes: int) -> Tensor:
    """1 for each class that has at least half a fair share of a memory's labels, else 0: (C,).

    A network learns next to nothing about a class from a sample or two, while the stream may soon bring many.
    """
    counts = F.one_hot(labels, n_classes).sum(dim=0)
    fair_share = counts.sum() / (counts > 0).sum().clamp(min=1)
    return (counts >= FAIR_ENOUGH * fair_share).float()


def snapshot_share(evidence: Tensor, prior: float = 0.0) -> Tensor:
    """The snapshot's share in a prediction, (), by its lead in agreement with arriving labels, the mean over classes.

    `evidence` is (3, C): arrivals that the network named, that the snapshot named, and all. Without any the share is
    0.5, or more with a `prior`.
    """
    by_network, by_snapshot, arrived = evidence
    lead = (by_snapshot - by_network) / arrived.clamp(min=1)
    return torch.sigmoid(prior + EVIDENCE_SCALE * lead.sum() / (arrived > 0).sum().clamp(min=1))


def joined(now: Tensor, then: Tensor, taught: Tensor, share: float | Tensor) -> Tensor:
    """Predictions of the live network (`now`) and of a snapshot (`then`) together, (N, C).

    `now` is (N, C); `then` (N, C') and `taught` (C',), 1 or 0, know the classes of the snapshot. `now` alone answers
    for classes that were not taught or came since. The others divide the rest: `share` by `then`, 1 - share by `now`.
    """
    n_new = now.shape[1] - len(taught)
    taught = F.pad(taught, (0, n_new))
    then = F.pad(then, (0, n_new)) * taught
    left = (now * taught).sum(dim=1, keepdim=True)
    then = left * then / then.sum(dim=1, keepdim=True).clamp(min=1e-12)
    return share * then + (1 - share) * now * taught + now * (1 - taught)


def check_finite(probabilities: np.ndarray) -> None:
    """Raise a `DivergedError` for nan: its likeliest class would be the first one, whatever the image."""
    if not np.isfinite(probabilities).all():
        raise DivergedError(
            "the network predicts nan: its training has diverged, and it will not recover; load an earlier save, or "
            "make a learner with a lower rate (online_lr, lr)"
        )

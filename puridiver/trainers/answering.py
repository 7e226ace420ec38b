"""Which states of a trainer's networks predict: as they are, as memory training left them, as they were before it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from puridiver.runtime.device import Runtime
from puridiver.runtime.model import Trainee
from puridiver.trainers.looking import by_both, well_taught

# Copies of the networks: as the last memory training left them, and what predicts while the next one is under way.
COPIES = TAUGHT, SERVING = "kept", "serving"
# Memory epochs after which a low of the rate is good enough to be served: on digits' validation images, under three
# noises in four tasks, it is above the state before 11 times of 12 after seven epochs, and 4 times after three
# (scripts/while-consolidating.py).
FEWEST_EPOCHS = 7


class Answering:
    """What a trainer's `online_prediction` makes of its networks.

    Between two memory trainings the network as the last one left it predicts ("consolidated"), or that and the network
    as it is ("both"), or the latter alone ("network"). Within a memory training the rate is high again and again, and
    the network the worse for it. So but with "network" what predicted before it goes on to, until the training comes to
    a low of its rate; also in the first, if anything was learnt online before. Where the training is left before its
    end, what predicted last goes on to until the next one, as if it were what the last training had left; but what no
    training has left, since it was the first, only until the networks learn on.
    """

    def __init__(self, trainees: Sequence[Trainee], runtime: Runtime, mode: str) -> None:
        self.trainees, self.runtime, self.mode = trainees, runtime, mode
        self.learnt_online = False  # since the last memory training
        self.taught: Tensor | None = None  # (classes of then,): 1 for those that the last one taught well
        self.serving = False  # a memory training is under way, and a copy predicts
        self._served: Tensor | None = None  # as `taught`: of what predicts meanwhile
        self._served_jointly = False  # by that copy and the one of the training before
        self.provisional = False  # what predicts, or is to where a training is left, comes from no training

    def begin(self, labels: Tensor, n_classes: int) -> None:
        """A memory training begins, with these labels; the networks are still as they were."""
        before, jointly = self.taught, self._joins
        self.teaches(labels, n_classes)
        if self.mode != "network" and (before is not None or self.learnt_online):
            self._keep(SERVING)
            # Before the first training nothing was taught: what the memory holds, the stream has shown.
            self.serving, self._served = True, self.taught if before is None else before
            self._served_jointly = jointly
            self.provisional = self.provisional or before is None
        self.learnt_online = False

    def teaches(self, labels: Tensor, n_classes: int) -> None:
        """What a memory with these labels teaches."""
        self.taught = well_taught(labels, n_classes)

    def came_low(self, epochs_done: int) -> None:
        """The memory training's rate is low now, and will rise: it may be long until it is as good again."""
        if self.serving and epochs_done >= FEWEST_EPOCHS:
            self._keep(SERVING)
            self._served, self._served_jointly, self.provisional = self.taught, False, False

    def leave_copy(self) -> None:
        """The networks themselves are good again."""
        self.serving, self._served, self._served_jointly = False, None, False

    def end(self, keep: bool) -> None:
        """The memory training is over; `keep` what it left, unless it was left before its end."""
        if self.serving:
            self._go_on_as_before()
            return
        self.provisional = False
        if self.mode != "network":
            for trainee in self.trainees:
                if keep:
                    trainee.keep(TAUGHT)
                else:
                    trainee.forget(TAUGHT)

    def _go_on_as_before(self) -> None:
        """What predicted meanwhile takes the place of what a training has left."""
        if not self._served_jointly:  # else that is there already
            for trainee in self.trainees:
                trainee.rename(SERVING, TAUGHT)
        self.taught = self._served
        self.learnt_online = True  # the networks are other ones than what predicts
        self.leave_copy()

    def learns_on(self) -> None:
        """The networks are about to learn online: a copy that comes from no training would soon be far behind them."""
        if self.provisional and not self.serving:
            for trainee in self.trainees:
                trainee.forget(TAUGHT)
            self.taught, self.provisional = None, False
        self.learnt_online = True

    def predict(self, look: Callable[[], Tensor]) -> Tensor:
        """Probabilities (N, C); `look` is what the networks say that are looked through."""
        if self.serving:
            return self._join(self._through(SERVING, look), look, self._served if self._served_jointly else None)
        return self._join(look(), look, self.taught if self._joins else None)

    @property
    def _joins(self) -> bool:
        """Whether the network as it is has another one beside it."""
        return self.learnt_online and all(TAUGHT in trainee.copies for trainee in self.trainees)

    def _join(self, now: Tensor, look: Callable[[], Tensor], taught: Tensor | None) -> Tensor:
        if taught is None:
            return now
        return by_both(now, self._through(TAUGHT, look), taught, self.mode == "consolidated")

    def _through(self, copy: str, look: Callable[[], Tensor]) -> Tensor:
        with contextlib.ExitStack() as looking:
            for trainee in self.trainees:
                looking.enter_context(trainee.through(copy))
            return look()

    def _keep(self, copy: str) -> None:
        for trainee in self.trainees:
            trainee.keep(copy)

    # State -----------------------------------------------------------------------------------------------------

    @property
    def copies(self) -> list[str]:
        """Which copies the future depends on."""
        return [TAUGHT, SERVING] if self.serving else [TAUGHT]

    def state(self) -> dict[str, Tensor]:
        found = {"learnt_online": torch.tensor(self.learnt_online)}
        if self.provisional:
            found["provisional"] = torch.tensor(True)
        if self.taught is not None:
            found["taught"] = self.taught
        if self._served is not None:
            found["taught_before" if self._served_jointly else "taught_served"] = self._served
        return found

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """Once the trainees have their copies."""
        self.learnt_online = bool(tensors.get("learnt_online", False))  # older versions kept no copies
        self.provisional = bool(tensors.get("provisional", False))
        taught, kept = tensors.get("taught"), self.trainees[0].copies.get(TAUGHT)
        if taught is None and kept is not None:  # saved before it was kept apart: all classes of then
            taught = torch.ones(len(kept.held["head.linear.weight"]))
        self.taught = None if taught is None else self.runtime.move(taught)
        self.serving = all(SERVING in trainee.copies for trainee in self.trainees)
        self._served_jointly = "taught_before" in tensors
        served = tensors.get("taught_before", tensors.get("taught_served", self.taught))  # older versions: the first
        self._served = self.runtime.move(served) if self.serving and served is not None else None

"""Which states of a trainer's networks predict: as they are, as memory training left them, as they were before it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from puridiver.runtime import Runtime
from puridiver.trainee import Trainee
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
    the network the worse for it. So but with "network", and in the first, which has nothing to lose, what predicted
    before it goes on to, until the training comes to a low of its rate.
    """

    def __init__(self, trainees: Sequence[Trainee], runtime: Runtime, mode: str) -> None:
        self.trainees, self.runtime, self.mode = trainees, runtime, mode
        self.learnt_online = False  # since the last memory training
        self.taught: Tensor | None = None  # (classes of then,): 1 for those that the last one taught well
        self.serving = False  # a memory training is under way, and a copy predicts
        self._taught_before: Tensor | None = None  # for as long as that copy is joined by the one before

    def begin(self, labels: Tensor, n_classes: int) -> None:
        """A memory training begins, with these labels; the networks are still as they were."""
        if self.mode != "network" and self.taught is not None:
            self._keep(SERVING)
            self.serving, self._taught_before = True, self.taught if self._joins else None
        self.learnt_online = False
        self.teaches(labels, n_classes)

    def teaches(self, labels: Tensor, n_classes: int) -> None:
        """What a memory with these labels teaches."""
        self.taught = well_taught(labels, n_classes)

    def came_low(self, epochs_done: int) -> None:
        """The memory training's rate is low now, and will rise: it may be long until it is as good again."""
        if self.serving and epochs_done >= FEWEST_EPOCHS:
            self._keep(SERVING)
            self._taught_before = None

    def leave_copy(self) -> None:
        """The networks themselves are good again, or have not changed."""
        self.serving, self._taught_before = False, None

    def end(self, keep: bool) -> None:
        """The memory training is over; `keep` what it left."""
        self.leave_copy()
        if keep and self.mode != "network":
            self._keep(TAUGHT)

    def predict(self, look: Callable[[], Tensor]) -> Tensor:
        """Probabilities (N, C); `look` is what the networks say that are looked through."""
        if self.serving:
            return self._join(self._through(SERVING, look), look, self._taught_before)
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
        if self.taught is not None:
            found["taught"] = self.taught
        if self._taught_before is not None:
            found["taught_before"] = self._taught_before
        return found

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """Once the trainees have their copies."""
        self.learnt_online = bool(tensors.get("learnt_online", False))  # older versions kept no copies
        taught, kept = tensors.get("taught"), self.trainees[0].copies.get(TAUGHT)
        if taught is None and kept is not None:  # saved before it was kept apart: all classes of then
            taught = torch.ones(len(kept.held["head.linear.weight"]))
        self.taught, self._taught_before = (
            None if found is None else self.runtime.move(found) for found in (taught, tensors.get("taught_before"))
        )
        self.serving = all(SERVING in trainee.copies for trainee in self.trainees)

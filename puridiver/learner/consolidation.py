"""A learner's trainings on its memory: one at a time, an epoch at a turn, so that others may predict in between."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from dataclasses import dataclass
from time import monotonic, time

import torch
from torch import Tensor

from puridiver.errors import ConsolidatingError
from puridiver.learner.replay import Replay
from puridiver.learner.time_budget import TimeBudget
from puridiver.learner.turns import Turns
from puridiver.memory import Keeper, Moment
from puridiver.runtime.device import learning
from puridiver.trainers import FEWEST_EPOCHS, Trainer, lows

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Consolidation:
    """How far a consolidation has come."""

    epochs_done: int
    epochs: int

    def __str__(self) -> str:
        return f"consolidation {self.epochs_done} of {self.epochs} under way"

    def check_goes_on_for(self, epochs: int | None) -> None:
        if epochs not in (None, self.epochs):
            raise ValueError(
                f"epochs should be {self.epochs}, or left out, to go on with the consolidation "
                f"that this learner was saved in, but got {epochs}"
            )

    def warn_if_left(self, why: str = "") -> None:
        """For when it is over, to its end or not."""
        if self.epochs_done < self.epochs:
            logger.warning(
                "a consolidation was left after %d of %d epochs%s: what predicted meanwhile goes on to "
                "(online_prediction='network': the network as it is), until another one has come to its end",
                self.epochs_done, self.epochs, why,
            )  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """A consolidation that came to its end, or was left; when, in seconds since 1970."""

    how_far: Consolidation
    begun_at: float | None  # None: by an earlier process
    ended_at: float


class Consolidating:
    """Begins, goes on with and ends trainings on the memory; knows how many there were and how far one has come.

    `trainer` and `moment` are asked when a training begins: a learner that knows no class yet has neither. `changing`
    is held by those who change the learner as long as that takes, `lock` by all who compute (taken last).
    """

    def __init__(
        self, keeper: Keeper, replay: Replay, lock: Turns, changing: Turns, trainer: Callable[[], Trainer],
        moment: Callable[[Tensor], Moment],
    ) -> None:  # fmt: skip
        self._keeper, self._replay, self._lock, self._changing = keeper, replay, lock, changing
        self._trainer, self._moment = trainer, moment
        self.count = 0  # of those that came to an end, or were left after an epoch or more
        self.begun: Consolidation | None = None  # begun and not ended: under way, or saved so and loaded
        self.under_way = False
        self.begun_at: float | None = None
        self.last: Ended | None = None

    def load_state(self, count: int, begun: Consolidation | None) -> None:
        self.count, self.begun = count, begun

    def run(
        self, epochs: int | None, default: int, seconds: float | None, warn_if_left: bool
    ) -> Generator[int, None, None]:
        """Train for some epochs, or go on with what was begun; yields the number of each finished epoch."""
        asked_at = monotonic()  # who has so many seconds has them for the waiting, too
        with self._changing, self._lock:
            planned = self._planned(epochs, default)
            budget = None if seconds is None else self._budget(seconds, asked_at, planned)
            self._begin(planned)
            steps = self._trainer().consolidate(self._keeper.memory.samples, planned.epochs, planned.epochs_done)
        stopped = False
        try:
            while not stopped:
                with self._lock, learning():  # for one epoch: another thread may predict between two
                    epoch = next(steps, None)
                    if epoch is None:
                        return
                    self.begun = Consolidation(epoch + 1, planned.epochs)
                yield epoch
                stopped = budget is not None and self._is_spent(budget, epoch + 1)
        finally:  # also where the caller leaves before the last epoch
            with self._lock:
                steps.close()
                self._end(warn_if_left, budget if stopped else None)

    def _budget(self, seconds: float, asked_at: float, planned: Consolidation) -> TimeBudget:
        found = lows(self._trainer().memory_rate, planned.epochs)
        if found == [planned.epochs] and planned.epochs > FEWEST_EPOCHS:
            raise ValueError(
                "seconds should be left out with a rate of memory training that is low at its end alone, since what is "
                "left before that never predicts: say how many epochs, or make a learner with schedule='warm_restarts' "
                "(and a trainer that goes by it)"
            )
        return TimeBudget(seconds, asked_at, found, planned.epochs_done)

    def _is_spent(self, budget: TimeBudget, epochs_done: int) -> bool:
        self._trainer().runtime.wait()  # for what a GPU has yet to do
        return budget.is_spent(epochs_done)

    def leave(self) -> None:
        """Be done with what was begun, saved and loaded, and is not gone on with."""
        if self.begun is not None:
            self._trainer().end_consolidation()
            self._end(warn_if_left=True)

    def check_none_under_way(self, before: str) -> None:
        if self.under_way:
            raise ConsolidatingError(f"a consolidation is under way: finish it, or close its iterator, before {before}")

    def _planned(self, epochs: int | None, default: int) -> Consolidation:
        """The training that is asked for, before anything has changed."""
        if not len(self._keeper.memory) and not len(self._keeper.delayed):
            raise ValueError("the memory is empty: observe a batch before consolidating")
        self.check_none_under_way("another")
        if self.begun is None:
            return Consolidation(0, default if epochs is None else epochs)
        self.begun.check_goes_on_for(epochs)
        return self.begun

    def _begin(self, planned: Consolidation) -> None:
        if self.begun is None:
            self._replay.drop()
            if not len(self._keeper.memory):  # all that came is still waiting
                no_loss = torch.zeros((), device=self._keeper.memory.samples.labels.device)
                self._keeper.take_waiting(self._moment(no_loss), self._trainer().meet)
        self._trainer().runtime.wait()  # other lanes have the host meanwhile
        self._keeper.counts()  # who asks for them while it trains shall not wait for the device
        self.begun, self.under_way, self.begun_at = planned, True, time()

    def _end(self, warn_if_left: bool, spent: TimeBudget | None = None) -> None:
        """Of a training that stopped because its time was `spent` it is told where that was not at a low."""
        if self.begun is not None:
            self.count += self.begun.epochs_done > 0
            self.last = Ended(self.begun, self.begun_at, time())
            if warn_if_left and not (spent and spent.stops_low(self.begun.epochs_done)):
                self.begun.warn_if_left(f", when its {spent.seconds:g} seconds were over" if spent else "")
        self.begun, self.under_way, self.begun_at = None, False, None

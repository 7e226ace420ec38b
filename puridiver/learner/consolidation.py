"""A learner's trainings on its memory: one at a time, under the learner's lock for an epoch at a time."""

from __future__ import annotations

import inspect
import logging
import weakref
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass, replace
from time import monotonic, time
from typing import TYPE_CHECKING, Any

import torch

from puridiver.errors import ConsolidatingError
from puridiver.runtime.device import learning
from puridiver.trainers.schedule import lows

if TYPE_CHECKING:
    from puridiver.learner.learner import Learner

logger = logging.getLogger(__name__)

# From here on the network at a minimum of the rate is good enough to answer. On digits' validation images, under three
# noises in four tasks, it beat the state before in 11 of 12 cases after seven epochs, and in 4 after three.
FEWEST_EPOCHS = 7


@dataclass(frozen=True)
class Consolidation:
    """How far a consolidation has come."""

    epochs_done: int
    epochs: int
    begun_at: float | None = None  # in seconds since 1970; None: by an earlier process

    def __str__(self) -> str:
        return f"consolidation {self.epochs_done} of {self.epochs} under way"


Owner = list[weakref.ref[Generator[int, None, None]]]  # one entry: the generator of a `run`


class TimeBudget:
    """Stops memory training at the last learning-rate minimum that fits a number of seconds.

    Between two minima the network is much worse. So the training stops at one if it is unlikely to reach the next in
    time, by the mean time of the epochs since the minimum before. If epochs got slower, the training stops after the
    one in which the time ran out, whatever the rate.
    """

    def __init__(self, seconds: float, asked_at: float, minima: Sequence[int], epochs_done: int = 0) -> None:
        self._end, self._minima = asked_at + seconds, minima
        self._since = epochs_done, monotonic()  # the last minimum, or the beginning

    def is_spent(self, epochs_done: int) -> bool:
        """Whether the training should stop after so many epochs."""
        now, (done_before, then) = monotonic(), self._since
        if now >= self._end or epochs_done not in self._minima:
            return now >= self._end
        an_epoch = (now - then) / (epochs_done - done_before)
        self._since = epochs_done, now
        next_low = next((low for low in self._minima if low > epochs_done), epochs_done)
        return now + an_epoch * (next_low - epochs_done) > self._end


class Consolidations:
    """Begins, continues and ends trainings on a learner's memory; knows how many there were and how far one is."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self.count = 0  # of those that ended, at their end or after an epoch or more
        self.begun: Consolidation | None = None  # begun and not ended: under way, or saved so and loaded
        self.last: dict[str, Any] | None = None  # how far the last one came, and when, for `Learner.status`
        self._owner: Owner | None = None  # the `run` that is under way
        self._minima: list[int] = []  # numbers of epochs after which the networks are good enough to answer

    def run(self, epochs: int | None, seconds: float | None, warn_if_left: bool) -> Generator[int, None, None]:
        """Train for some epochs, or continue what was begun; yields the number of each finished epoch."""
        me: Owner = []
        found = self._run(me, epochs, seconds, warn_if_left)
        me.append(weakref.ref(found))
        return found

    @property
    def running(self) -> bool:
        """Whether a `run` is under way. One that an interrupt ended is not, wherever the interrupt came."""
        generator = self._owner[0]() if self._owner else None
        return generator is not None and inspect.getgeneratorstate(generator) != inspect.GEN_CLOSED

    def _run(
        self, me: Owner, epochs: int | None, seconds: float | None, warn_if_left: bool
    ) -> Generator[int, None, None]:
        if epochs == 0 or (epochs is None and self.begun is None and self._learner.options.epochs == 0):
            return  # the learner trains on its stream alone
        asked_at = monotonic()  # the seconds include the time spent waiting
        lock = self._learner.lock
        steps: Generator[int, None, None] | None = None
        timed_out = False
        try:
            begun = lock.run(self._begin, me, epochs, with_budget=seconds is not None)
            budget = seconds and TimeBudget(seconds, asked_at, self._minima, begun.epochs_done)
            trainer = self._learner.trainer
            steps = trainer.consolidate(self._learner.memory.samples, begun.epochs, begun.epochs_done)
            while not timed_out and (epoch := lock.run(self._next_epoch, steps)) is not None:
                yield epoch
                if budget:
                    trainer.runtime.wait()  # for what a GPU has yet to do
                    timed_out = budget.is_spent(epoch + 1)
        finally:  # also where the caller leaves before the last epoch
            if self._owner is me:
                why = f", when its {seconds:g} seconds were over" if timed_out else ""
                lock.run(self._end, steps, warn_if_left, why)

    def check_none_under_way(self, before: str) -> None:
        if self.running:
            raise ConsolidatingError(f"a consolidation is under way: finish it, or close its iterator, before {before}")

    def abandon(self) -> None:
        """End a consolidation that was saved and loaded, and is not continued."""
        self._learner.trainer.end_consolidation()
        self._end(None, warn_if_left=True)

    def _begin(self, me: Owner, epochs: int | None, with_budget: bool) -> Consolidation:
        learner, memory = self._learner, self._learner.memory
        if not len(memory) and not len(memory.waiting):
            raise ValueError("the memory is empty: observe a batch before consolidating")
        self.check_none_under_way("another")
        begun = self.begun or Consolidation(0, epochs or learner.options.epochs)
        if epochs not in (None, begun.epochs):
            raise ValueError(
                f"epochs should be {begun.epochs}, or left out, to continue the consolidation that this learner was "
                f"saved in, but got {epochs}"
            )
        found = lows(learner.trainer.memory_rate, begun.epochs)
        if with_budget and found == [begun.epochs] and begun.epochs > FEWEST_EPOCHS:
            raise ValueError(
                "seconds should be left out if the learning rate is low only at the end of memory training: give a "
                "number of epochs, or make a learner with schedule='warm_restarts' (and a trainer that uses it)"
            )
        self._minima = [done for done in found if done >= FEWEST_EPOCHS or done == begun.epochs]
        if self.begun is None:
            memory.replay_stock = []
            if not len(memory):  # all that came is still waiting
                no_loss = torch.zeros((), device=learner.runtime.device)
                memory.choose_waiting(learner.moment(no_loss), learner.trainer.on_candidates)
        learner.runtime.wait()  # other lanes have the host meanwhile
        memory.counts()  # whoever asks for them during the training need not wait for the device
        self.begun, self._owner = replace(begun, begun_at=time()), me
        learner.predictor.hold()
        return begun

    def _next_epoch(self, steps: Generator[int, None, None]) -> int | None:
        """Train for one epoch; None after the last."""
        with learning():
            epoch = next(steps, None)
        if epoch is not None and self.begun is not None:
            self.begun = replace(self.begun, epochs_done=epoch + 1)
            if epoch + 1 in self._minima:
                self._learner.predictor.keep(self._learner.memory.samples.labels)
            else:
                self._learner.predictor.publish()
        return epoch

    def _end(self, steps: Generator[int, None, None] | None, warn_if_left: bool, why: str = "") -> None:
        """A training that stopped because its time was over gets a warning only if that was not at a minimum."""
        if steps is not None:
            steps.close()
        if self.begun is not None:
            done, epochs = self.begun.epochs_done, self.begun.epochs
            self.count += done > 0
            self.last = asdict(self.begun) | {"ended_at": time()}
            if done < epochs and warn_if_left and not (why and done in self._minima):
                logger.warning(
                    "a consolidation stopped after %d of %d epochs%s: the weights that answered meanwhile go on to "
                    "answer (online_prediction='network': the live network) until another one has come to its end",
                    done, epochs, why,
                )  # fmt: skip
        self.begun = self._owner = None

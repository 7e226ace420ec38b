"""A learner's trainings on its memory: one at a time, under the learner's lock for an epoch at a time."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, NamedTuple

from puridiver.errors import ConsolidatingError
from puridiver.runtime.device import learning
from puridiver.trainers.schedule import lows

if TYPE_CHECKING:
    from puridiver.learner.learner import Learner

# After so many epochs the network at a learning-rate minimum is good enough to answer. On digits' validation images,
# under three noises in four tasks, it beat the network before in 11 of 12 cases; after three epochs it did in 4.
FEWEST_EPOCHS = 7


class Consolidation(NamedTuple):
    """How far a consolidation has come."""

    epochs_done: int
    epochs: int


class Consolidations:
    """Begins, continues and ends trainings on a learner's memory; knows how many there were and how far one is."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self.count = 0  # consolidations that are complete, or stopped after an epoch or more
        self.begun: Consolidation | None = None  # the one that has not ended: it is under way, or was when it was saved
        self._running: object = None  # the `run` that is under way
        self._minima: list[int] = []  # numbers of epochs after which the networks are good enough to answer

    def run(self, epochs: int | None) -> Generator[int, None, None]:
        """Train for some epochs, or continue what was begun; yields the number of each finished epoch."""
        if epochs == 0 or (epochs is None and self.begun is None and self._learner.options.epochs == 0):
            return  # the learner trains on its stream alone
        lock, me = self._learner.lock, object()
        steps: Generator[int, None, None] | None = None
        try:
            steps = lock.run(self._begin, me, epochs)
            while (epoch := lock.run(self._next_epoch, steps)) is not None:
                yield epoch
        finally:  # also where the caller leaves before the last epoch
            if self._running is me:
                self._running = None  # first: after an interrupt amid the end, observing abandons what was begun
                lock.run(self._end, steps)

    def check_none_under_way(self, before: str) -> None:
        if self._running is not None:
            raise ConsolidatingError(f"a consolidation is under way: finish it, or close its iterator, before {before}")

    def abandon(self, before: str) -> None:
        """End a consolidation that was saved and loaded, if there is one: the learner does not continue it."""
        self.check_none_under_way(before)
        if self.begun is not None:
            self._learner.trainer.end_consolidation(self._learner.memory.trained_on)
            self._end(None)

    def _begin(self, me: object, epochs: int | None) -> Generator[int, None, None]:
        learner, memory = self._learner, self._learner.memory
        if not len(memory.trained_on):
            raise ValueError("the memory is empty: observe a batch before consolidating")
        self.check_none_under_way("another")
        begun = self.begun or Consolidation(0, epochs or learner.options.epochs)
        if epochs not in (None, begun.epochs):
            raise ValueError(
                f"epochs should be {begun.epochs}, or left out, to continue the consolidation that this learner was "
                f"saved in, but got {epochs}"
            )
        minima = lows(learner.trainer.memory_rate, begun.epochs)
        self._minima = [done for done in minima if done >= FEWEST_EPOCHS or done == begun.epochs]
        if self.begun is None:
            memory.replay_stock = []
        learner.runtime.wait()  # other lanes have the host meanwhile
        self.begun, self._running = begun, me
        learner.predictor.hold(begins=begun.epochs_done == 0)
        return learner.trainer.consolidate(memory.trained_on, begun.epochs, begun.epochs_done)

    def _next_epoch(self, steps: Generator[int, None, None]) -> int | None:
        """Train for one epoch; None after the last."""
        with learning(), self._learner.monitor.timing("consolidating"):
            epoch = next(steps, None)
        if epoch is not None and self.begun is not None:
            self.begun = Consolidation(epoch + 1, self.begun.epochs)
            if epoch + 1 in self._minima:
                self._learner.predictor.keep(self._learner.memory.trained_on.labels)
            else:
                self._learner.predictor.publish()
        return epoch

    def _end(self, steps: Generator[int, None, None] | None) -> None:
        if steps is not None:
            steps.close()
        self.count += self.begun is not None and self.begun.epochs_done > 0
        self.begun = None
        self._learner.predictor.publish()
        self._learner.edits.apply()

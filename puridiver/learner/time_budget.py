"""How long a training on the memory goes on that has so many seconds: to the last low of its rate that they reach."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from puridiver.trainers import FEWEST_EPOCHS


class TimeBudget:
    """Seconds, from when they were asked for, of a training whose rate is low after `lows` epochs, all at last.

    Where the rate is high the network is much worse than at the low before. So a training stops at a low from which
    the next one is not likely to be reached in time, by the mean time of the epochs since the low before: the first
    ones may have taken longer than any that follow. Lows that are too early to predict are passed by. Where epochs got
    slower it stops after the one in which the seconds were over, be the rate what it is.
    """

    def __init__(self, seconds: float, asked_at: float, lows: Sequence[int], epochs_done: int = 0) -> None:
        self.seconds, self._end, self._lows = seconds, asked_at + seconds, lows
        self._since = epochs_done, monotonic()  # the last low, or the beginning

    def is_spent(self, epochs_done: int) -> bool:
        """Whether the training should stop after so many epochs."""
        now = monotonic()
        return now >= self._end or (self.stops_low(epochs_done) and not self._reaches_next(epochs_done, now))

    def stops_low(self, epochs_done: int) -> bool:
        """Whether the network after so many epochs is one to predict with."""
        return epochs_done in self._lows and epochs_done >= FEWEST_EPOCHS

    def _reaches_next(self, epochs_done: int, now: float) -> bool:
        done_before, then = self._since
        an_epoch = (now - then) / (epochs_done - done_before)
        self._since = epochs_done, now
        next_low = next((low for low in self._lows if low > epochs_done), epochs_done)
        return now + an_epoch * (next_low - epochs_done) <= self._end

"""Weights of a network apart from it: as they were at one moment, or averaged over its last steps."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import torch
from torch import Tensor

_numbers = itertools.count(2)  # 0 and 1 stand for the network itself: see `Inference`


class Snapshot:
    """A network's weights and BatchNorm statistics at one moment. Nobody changes them, so any thread may read them.

    (On a GPU captured passes refer to its addresses, for which `number` stands. There `renew` overwrites a snapshot,
    and readers hold the learner's lock.)
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.tensors = dict(tensors)
        self.number = next(_numbers)

    def fits(self, tensors: Mapping[str, Tensor]) -> bool:
        """Whether it is of a network of this shape; one from before the network grew is not."""
        return all(self.tensors[name].shape == value.shape for name, value in tensors.items())

    def renew(self, tensors: Mapping[str, Tensor]) -> None:
        torch._foreach_copy_(list(self.tensors.values()), list(tensors.values()))


class MovingAverage:
    """The exponential moving average of a network's weights and statistics over its last steps.

    It is steadier than the network itself while that learns from a stream. Captured steps refer to its tensors, so
    they keep their addresses.
    """

    def __init__(self, live: Mapping[str, Tensor], decay: float) -> None:
        self.decay, self._live = decay, list(live.values())
        self.tensors = {name: value.clone() for name, value in live.items()}

    def follow(self) -> None:
        """Move a little towards the network; after every step of it."""
        torch._foreach_lerp_(list(self.tensors.values()), self._live, 1 - self.decay)

    def take_over(self) -> None:
        """Set the network to its average."""
        torch._foreach_copy_(self._live, list(self.tensors.values()))

    def restart(self) -> None:
        """Set the average to the network."""
        torch._foreach_copy_(list(self.tensors.values()), self._live)

    def inherit(self, older: MovingAverage) -> None:
        """Continue the average of the same network before it grew; rows of new classes are the network's."""
        for name, value in older.tensors.items():
            rows = slice(len(value)) if value.ndim else ...  # a network from outside may have scalars
            self.tensors[name][rows] = value

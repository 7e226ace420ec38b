"""What is known of samples beside their tensors, as long as the memory holds them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from puridiver.memory import Keeper

Value = TypeVar("Value", int, int | str)


class ByArrival(Generic[Value]):
    """A value for each of some samples, by their arrival; on the host, since nothing computes with it.

    Values of samples that were dropped are forgotten now and then: to ask at every batch which those are would make
    the host wait for a GPU.
    """

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._noted: dict[int, Value] = {}

    def note(self, values: Mapping[int, Value]) -> None:
        self._noted |= values
        if len(self._noted) > 2 * self._keeper.capacity:
            self._noted = self.held()

    def forget(self, arrivals: Iterable[int]) -> None:
        for arrival in arrivals:
            self._noted.pop(arrival, None)

    def held(self) -> dict[int, Value]:
        """Those of samples that are held, in the order of the memory."""
        if not self._noted:
            return {}
        return {arrival: self._noted[arrival] for arrival in self._keeper.arrivals() if arrival in self._noted}

    def state(self) -> list[tuple[int, Value]]:
        """As JSON, whose objects have no numbers as keys."""
        return list(self.held().items())

    def load_state(self, state: Iterable[tuple[int, Value]]) -> None:
        self._noted = dict(state)

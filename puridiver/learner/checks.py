"""Labels that a person has checked, and how that is undone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from puridiver.learner.sample_ids import ByArrival
from puridiver.memory import Keeper


class Checks:
    """Gives samples that are held labels that a person has checked, and takes them back.

    Labels are class ids, samples are named by their arrival. What a sample came with is kept beside it.
    """

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._came_with = ByArrival[int](keeper)  # of those that were checked

    def make(self, labels: Mapping[int, int]) -> int:
        """Returns how many of the samples are held."""
        known, held = self._came_with.held(), self._keeper.labels()
        self._came_with.note({a: held[a] for a in labels if a in held and a not in known})
        return self._keeper.relabel(labels, checked=True)

    def undo(self, arrivals: Collection[int]) -> int:
        """Returns how many of the samples are held and were checked.

        Where an older version saved them, it is not known what they came with: they keep their labels.
        """
        checked, known = self._keeper.labels(checked=True), self._came_with.held()
        before = {a: known.get(a, checked[a]) for a in arrivals if a in checked}
        self._came_with.forget(before)
        return self._keeper.relabel(before, checked=False)

    def state(self) -> list[tuple[int, int]]:
        return self._came_with.state()

    def load_state(self, state: Iterable[tuple[int, int]]) -> None:
        self._came_with.load_state(state)

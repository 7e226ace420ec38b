"""What is known of the samples that a memory holds: ids of the caller, corrections of labels, and audit rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

from puridiver.learner.inputs import Label, SourceId
from puridiver.memory import Memory, Samples
from puridiver.trainers import SET_NAMES, Split

Value = TypeVar("Value", int, int | str)


class SampleIds(Generic[Value]):
    """A value for some samples, by their arrival, as long as the memory holds them.

    Values of evicted samples are dropped now and then: asking at every batch would make the host wait for a GPU.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._values: dict[int, Value] = {}

    def note(self, values: Mapping[int, Value]) -> None:
        self._values |= values
        if len(self._values) > 2 * (self._memory.capacity + self._memory.delay):
            self._values = self.held()

    def forget(self, arrivals: Iterable[int]) -> None:
        for arrival in arrivals:
            self._values.pop(arrival, None)

    def held(self) -> dict[int, Value]:
        """Those of samples that are held, in the order of the memory."""
        if not self._values:
            return {}
        return {arrival: self._values[arrival] for arrival in self._memory.arrivals() if arrival in self._values}

    def state(self) -> list[tuple[int, Value]]:
        """As JSON, whose objects have no numbers as keys."""
        return list(self.held().items())

    def load_state(self, state: Iterable[tuple[int, Value]]) -> None:
        self._values = dict(state)


class Corrections:
    """Gives held samples labels that a person has checked, and takes them back. Labels are class ids, by arrival."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._came_with = SampleIds[int](memory)  # the labels of checked samples before the check

    def make(self, labels: Mapping[int, int]) -> int:
        """Returns how many of the samples are held."""
        known, held = self._came_with.held(), self._memory.labels()
        self._came_with.note({a: held[a] for a in labels if a in held and a not in known})
        return self._memory.relabel(labels, checked=True)

    def undo(self, arrivals: Collection[int]) -> int:
        """Returns how many of the samples are held and were checked."""
        checked, known = self._memory.labels(checked=True), self._came_with.held()
        before = {a: known[a] for a in arrivals if a in checked}
        self._came_with.forget(before)
        return self._memory.relabel(before, checked=False)

    def state(self) -> list[tuple[int, int]]:
        return self._came_with.state()

    def load_state(self, state: Iterable[tuple[int, int]]) -> None:
        self._came_with.load_state(state)


@dataclass(frozen=True)
class AuditRow:
    """The learner's opinion of the label of one memory sample.

    `p_correct` comes from two groups of losses, which Eq. 4 finds even where all labels are right: the half with the
    larger losses then has small values. `puridiver.audit` covers a whole set and estimates probabilities.
    """

    arrival: int  # the sample was the arrival-th of the stream, from 0
    given_label: Label
    p_correct: float  # Eq. 4's posterior of a small loss: it ranks labels, and is no measured probability (see above)
    suggested_label: Label
    set: str  # "clean", "relabel" or "unlabelled"
    checked: bool = False  # by a person (`Learner.correct`): not doubted any more
    id: SourceId | None = None  # that the caller gave it (`Learner.observe`)


def audit_rows(samples: Samples, split: Split, classes: Sequence[Label], ids: Mapping[int, SourceId]) -> list[AuditRow]:
    """A row for each sample of a divided memory: first those with another suggested label, each by `p_correct`."""
    suggested = torch.where(split.clean, samples.labels, split.p_model.argmax(dim=1))
    columns = (samples.arrivals, samples.labels, split.p_clean, suggested, split.codes(), samples.checked)
    rows = [
        AuditRow(arrival, classes[given], p, classes[better], SET_NAMES[code], checked, ids.get(arrival))
        for arrival, given, p, better, code, checked in zip(*(c.tolist() for c in columns), strict=True)
    ]
    return sorted(rows, key=lambda row: (row.suggested_label == row.given_label, row.p_correct, row.arrival))

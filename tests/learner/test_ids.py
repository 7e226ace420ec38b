"""Ids of the caller's own, by which what a learner holds and doubts is traced to where it came from."""

from __future__ import annotations

import pytest

from puridiver import Learner
from tests.learner_samples import patterns, tiny_learner

IMAGES, LABELS = patterns(64)


def name_of(arrival: int) -> str | int:
    """Words and numbers, since both are allowed."""
    return f"photo-{arrival}.png" if arrival % 2 else 1000 + arrival


def fed(learner: Learner, start: int = 0, end: int = 48, size: int = 8, named: bool = True) -> Learner:
    for first in range(start, end, size):
        rows = range(first, min(first + size, end))
        ids = [name_of(row) for row in rows] if named else None
        learner.observe(IMAGES[rows.start : rows.stop], LABELS[rows.start : rows.stop], ids=ids)
    return learner


def held_arrivals(learner: Learner) -> list[int]:
    return [*learner.memory.samples.arrivals.tolist(), *learner.memory.waiting.arrivals.tolist()]


@pytest.mark.parametrize(("sampler", "size"), [("puridiver", 8), ("rsv", 1), ("spr", 48)])
def test_what_is_held_has_the_ids_it_came_with(sampler: str, size: int) -> None:
    learner = fed(tiny_learner(sampler=sampler), size=size)
    assert len(held_arrivals(learner)) < 48  # some were dropped
    assert learner.held_ids() == {arrival: name_of(arrival) for arrival in held_arrivals(learner)}


def test_ids_of_what_was_dropped_are_forgotten() -> None:
    learner = tiny_learner(memory=4)
    for _ in range(3):
        fed(learner, size=48)
    assert len(learner.source_ids) <= 8


def test_a_batch_that_could_not_be_learnt_leaves_no_id(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = tiny_learner(memory=32)

    def failing(*arguments: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(learner.trainer, "observe", failing)
        with pytest.raises(MemoryError):
            fed(learner, 0, 8)
    fed(learner, 0, 8, named=False)
    assert learner.held_ids() == {}


def test_labels_can_be_corrected_by_ids() -> None:
    learner = fed(tiny_learner(memory=12))
    held = held_arrivals(learner)
    dropped = next(arrival for arrival in range(48) if arrival not in held)
    new = {name_of(arrival): int(LABELS[arrival] + 1) % 3 for arrival in (held[0], held[5], dropped)}
    assert learner.correct(new, by_id=True) == 2
    rows = {row.arrival: row for row in learner.audit()}
    assert {arrival for arrival, row in rows.items() if row.checked} == {held[0], held[5]}
    assert all(rows[arrival].given_label == new[name_of(arrival)] for arrival in (held[0], held[5]))

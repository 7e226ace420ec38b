"""Ids of the caller's own, and labels that a person has checked: by arrival or id, undone, saved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from puridiver import Learner
from tests.learner_samples import feed, patterns, tiny_learner

IMAGES, LABELS = patterns(200)
IDS = [f"photo-{row}.png" for row in range(200)]


def fed(learner: Learner, start: int = 0, end: int = 24, size: int = 8) -> Learner:
    return feed(learner, IMAGES[start:end], LABELS[start:end], size, IDS[start:end])


def held(learner: Learner) -> dict[int, tuple[int, bool]]:
    """Labels by arrival, and whether they are checked."""
    samples = learner.memory.held()
    rows = zip(samples.labels.tolist(), samples.checked.tolist(), strict=True)
    return dict(zip(samples.arrivals.tolist(), rows, strict=True))


def other(arrival: int) -> int:
    return int(LABELS[arrival] + 1) % 3


@pytest.mark.parametrize(("sampler", "size"), [("puridiver", 8), ("rsv", 1), ("spr", 48)])
def test_what_is_held_has_the_ids_it_came_with(sampler: str, size: int) -> None:
    learner = fed(tiny_learner(sampler=sampler), 0, 48, size)
    assert len(held(learner)) < 48  # some were dropped
    assert learner.held_ids() == {arrival: IDS[arrival] for arrival in held(learner)}


def test_a_batch_that_could_not_be_learnt_leaves_no_id(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = tiny_learner(memory=32)

    def failing(*arguments: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(learner.trainer, "observe", failing)
        with pytest.raises(MemoryError):
            fed(learner, 0, 8)
    feed(learner, IMAGES[:8], LABELS[:8])
    assert learner.held_ids() == {}


@pytest.mark.parametrize("by_id", [False, True])
def test_what_is_undone_is_as_if_nobody_had_looked(by_id: bool, tmp_path: Path) -> None:
    learner = fed(tiny_learner())
    before = held(learner)
    first, second, third = list(before)[:3]
    dropped = next(arrival for arrival in range(24) if arrival not in before)

    def correct(learner: Learner, labels: dict[int, int | None]) -> int:
        named = {IDS[arrival] if by_id else arrival: label for arrival, label in labels.items()}
        found = learner.correct(named, by_id=by_id)
        assert found.dropped == [IDS[dropped] if by_id else dropped] * (dropped in labels)
        assert not found.unknown
        assert not found.queued
        return len(found.applied)

    for _ in range(2):  # what a label came with is known however often it is corrected
        assert (
            correct(learner, {first: other(first), second: int(LABELS[second]), third: other(third), dropped: 0}) == 3
        )
    rows = {row.arrival: row for row in learner.audit()}
    assert {arrival for arrival, row in rows.items() if row.checked} == {first, second, third}
    assert (rows[third].given_label, rows[third].id) == (other(third), IDS[third])
    learner = Learner.load(learner.save(tmp_path), device="cpu")
    assert correct(learner, {first: None, second: None, dropped: None}) == 2
    assert held(learner) == {**before, third: (other(third), True)}
    assert correct(learner, {first: None, third: None}) == 2
    assert held(learner) == before


def test_after_a_correction_nothing_is_replayed_with_the_old_label() -> None:
    learner = fed(tiny_learner(memory=8, replay="always"), 0, 40)
    assert learner.memory.replay_stock  # drawn ahead
    learner.correct(dict.fromkeys(held(learner), 2))
    replayed = learner.memory.replay(8, learner.trainer.strong_view, learner.generators["sampler"])
    assert set(replayed.labels.tolist()) == {2}


def test_a_batch_of_another_size_is_joined_by_as_many_as_it_asks_for() -> None:
    learner = fed(tiny_learner(memory=8, replay="always"), 0, 40)
    ahead = len(learner.memory.replay_stock[-1])
    for size in (ahead - 1, 3, 8, 20):
        replayed = learner.memory.replay(size, learner.trainer.strong_view, learner.generators["sampler"])
        assert len(set(replayed.arrivals.tolist())) == len(replayed) == min(size, 8)


def test_what_a_person_has_checked_is_not_doubted_again() -> None:
    """Wrong labels that are confirmed as right: the learner has every reason to doubt them, and may not."""
    given = np.where(np.arange(48) % 4 == 0, (LABELS[:48] + 1) % 3, LABELS[:48])
    learner = feed(Learner(classes=3, input_shape=(8, 8, 1), memory=16, seed=3), IMAGES[:48], given)
    learner.consolidate(12)
    confirmed = {row.arrival: row.given_label for row in learner.audit() if row.p_correct < 0.5}
    assert confirmed
    assert learner.correct(confirmed).applied == list(confirmed)
    learner.consolidate(4)
    rows = [row for row in learner.audit() if row.checked]
    assert {row.arrival for row in rows} == set(confirmed)
    for row in rows:
        assert (row.p_correct, row.set) == (1.0, "clean")
        assert row.given_label == row.suggested_label == confirmed[row.arrival]

"""Checks of labels that are undone, and a memory that checked samples cannot fill."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from puridiver import Learner
from tests.learner_samples import patterns, tiny_learner

IMAGES, LABELS = patterns(200)


def fed(learner: Learner, start: int = 0, end: int = 24) -> Learner:
    for first in range(start, end, 8):
        rows = slice(first, first + 8)
        learner.observe(IMAGES[rows], LABELS[rows], ids=[f"{row}.png" for row in range(first, first + 8)])
    return learner


def held(learner: Learner) -> dict[int, tuple[int, bool]]:
    """Labels by arrival, and whether they are checked."""
    found = {}
    for samples in (learner.memory.samples, learner.memory.waiting):
        rows = zip(samples.labels.tolist(), samples.checked.tolist(), strict=True)
        found |= dict(zip(samples.arrivals.tolist(), rows, strict=True))
    return found


def other(arrival: int) -> int:
    return int(LABELS[arrival] + 1) % 3


@pytest.mark.parametrize("by_id", [False, True])
def test_what_is_unchecked_is_as_if_nobody_had_looked(by_id: bool) -> None:
    learner = fed(tiny_learner())
    before = held(learner)
    first, second, third = list(before)[:3]
    assert learner.correct({first: other(first), second: int(LABELS[second]), third: other(third)}) == 3
    dropped = next(arrival for arrival in range(24) if arrival not in before)
    named: list[Any] = [first, second, dropped]
    assert learner.uncheck([f"{a}.png" for a in named] if by_id else named, by_id=by_id) == 2
    assert held(learner) == {**before, third: (other(third), True)}
    assert learner.uncheck(named) == 0  # they are not checked any more
    assert learner.uncheck({third}) == 1
    assert held(learner) == before


def test_it_is_known_through_saves_and_copies(tmp_path: Path) -> None:
    learner = fed(tiny_learner())
    before = held(learner)
    arrival = next(iter(before))
    learner.correct({arrival: other(arrival)})
    learner.save(tmp_path)
    for each in (Learner.load(tmp_path, device="cpu"), copy.deepcopy(learner)):
        assert each.uncheck([arrival]) == 1
        assert held(each) == before


def test_checked_samples_do_not_fill_the_memory() -> None:
    """Whoever checks all that is held, again and again, leaves half of each class to what comes."""
    learner = fed(tiny_learner(), 0, 16)
    for start in range(16, 200, 8):
        learner.correct({arrival: label for arrival, (label, _) in held(learner).items()})
        fed(learner, start, min(start + 8, 200))
    assert max(held(learner)) > 150
    assert len([arrival for arrival in held(learner) if arrival < 16]) < 12

"""How a learner is, for those who watch over it: plain figures, told at once whatever it is doing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from puridiver.learner.consolidation import Consolidating
from puridiver.memory import Keeper
from puridiver.trainers import SET_NAMES, Sets

if TYPE_CHECKING:
    from puridiver.learner.learner import Learner


@dataclass
class LastTimes:
    """When this process did something last, in seconds since 1970.

    Saves know nothing of it: two learners of the same bits are saved as the same.
    """

    observed: float | None = None
    saved: float | None = None


def status_of(
    learner: Learner, keeper: Keeper, consolidating: Consolidating, sets: Sets | None, times: LastTimes
) -> dict[str, Any]:
    """What `Learner.status` tells. No lock is taken: of a batch that is just being learnt it may tell a part."""
    counts = keeper.counts()  # before the classes: a class is there before its first sample
    classes: list[dict[str, Any]] = [
        {"label": label, "seen": learner.seen_of[number], "held": counts.held[number],
         "checked": counts.checked[number]}
        for number, label in enumerate(learner.classes)
    ]  # fmt: skip
    return {
        "samples_seen": learner.seen,
        "classes_seen": sum(known["seen"] > 0 for known in classes),
        "classes": classes,
        "memory": {
            "held": counts.held.total(),
            "waiting": len(keeper.delayed),
            "checked": counts.checked.total(),
            "capacity": keeper.capacity,
        },
        "consolidations": consolidating.count,
        "consolidation": _of_begun(consolidating),
        "last_consolidation": _of_last(consolidating),
        "sets": None if sets is None else dict(zip(SET_NAMES, sets.sizes(), strict=True)),
        "diverged": learner.has_said_nan,
        "observed_at": times.observed,
        "saved_at": times.saved,
    }


def _of_begun(consolidating: Consolidating) -> dict[str, Any] | None:
    begun = consolidating.begun
    if begun is None:
        return None
    running = consolidating.under_way
    return {
        "running": running,  # else it was saved so and loaded, and waits to be gone on with
        "epochs_done": begun.epochs_done,
        "epochs": begun.epochs,
        "begun_at": consolidating.begun_at if running else None,
    }


def _of_last(consolidating: Consolidating) -> dict[str, Any] | None:
    last = consolidating.last
    if last is None:
        return None
    return {
        "epochs_done": last.how_far.epochs_done,
        "epochs": last.how_far.epochs,
        "begun_at": last.begun_at,
        "ended_at": last.ended_at,
    }

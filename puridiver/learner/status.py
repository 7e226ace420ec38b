"""A learner's status for a monitor: plain figures, told at once whatever the learner is doing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from puridiver.trainers import SET_NAMES

if TYPE_CHECKING:
    from puridiver.learner.consolidation import Consolidations
    from puridiver.learner.learner import Learner


def status_of(learner: Learner, consolidations: Consolidations) -> dict[str, Any]:
    """What `Learner.status` tells. No lock is taken: while a batch is learnt it may tell only a part of it."""
    counts = learner.memory.counts()  # before the classes: a class is there before its first sample
    classes: list[dict[str, Any]] = [
        {"label": label, "seen": learner.seen_of[number], "held": counts.held[number],
         "checked": counts.checked[number]}
        for number, label in enumerate(learner.classes)
    ]  # fmt: skip
    sets = learner.trainer.sets if learner.classes else None
    begun, running, last = consolidations.begun, consolidations.under_way, consolidations.last
    return {
        "samples_seen": learner.seen,
        "classes_seen": sum(known["seen"] > 0 for known in classes),
        "classes": classes,
        "memory": {
            "held": counts.held.total(),
            "waiting": len(learner.memory.waiting),
            "checked": counts.checked.total(),
            "capacity": learner.capacity,
        },
        "consolidations": consolidations.count,
        "consolidation": None if begun is None else {
            "running": running,  # else the learner was saved in it and loaded, and may continue it
            "epochs_done": begun.epochs_done,
            "epochs": begun.epochs,
            "begun_at": consolidations.begun_at if running else None,
        },
        "last_consolidation": None if last is None else {
            "epochs_done": last.how_far.epochs_done,
            "epochs": last.how_far.epochs,
            "begun_at": last.begun_at,
            "ended_at": last.ended_at,
        },
        "sets": None if sets is None else dict(zip(SET_NAMES, sets.sizes(), strict=True)),
        "diverged": learner.has_said_nan,
        "observed_at": learner.observed_at,
        "saved_at": learner.saved_at,
    }  # fmt: skip

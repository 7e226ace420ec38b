"""What a learner tells those who watch over it."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from puridiver import Learner
from tests.learner_samples import feed, patterns, tiny_learner

IMAGES, LABELS = patterns(40)
NAMES = np.array(["cat", "dog", "owl"])[LABELS]


def of_class(status: dict[str, Any], figure: str) -> dict[Any, int]:
    return {known["label"]: known[figure] for known in status["classes"]}


@pytest.mark.parametrize("sampler", ["puridiver", "spr"])
def test_it_counts_what_came_is_held_and_was_checked(sampler: str) -> None:
    learner = feed(tiny_learner(["cat", "dog", "owl", "yak"], sampler=sampler), IMAGES, NAMES)
    memory = learner.memory
    learner.status()  # counts follow every change
    learner.correct({int(memory.samples.arrivals[0]): "yak"})
    status, held = learner.status(), [*memory.samples.labels.tolist(), *memory.waiting.labels.tolist()]
    assert (status["samples_seen"], status["classes_seen"]) == (40, 3)
    assert of_class(status, "seen") == {**Counter(NAMES.tolist()), "yak": 0}
    assert of_class(status, "held") == dict(zip(learner.classes, np.bincount(held, minlength=4).tolist(), strict=True))
    assert of_class(status, "checked") == {"cat": 0, "dog": 0, "owl": 0, "yak": 1}
    assert status["memory"] == {"held": len(held), "waiting": len(memory.waiting), "checked": 1, "capacity": 12}


def test_it_tells_of_consolidations_as_json_can_hold_it(tmp_path: Path) -> None:
    before = time.time()
    learner = feed(tiny_learner(None), IMAGES, NAMES)
    learner.consolidate(3)
    learner.save(tmp_path)
    steps = learner.consolidation(2)
    next(steps)
    status = learner.status()
    last, sizes = status["last_consolidation"], learner.trainer.sets.sizes()  # type: ignore[union-attr]
    assert (last["epochs_done"], last["epochs"], status["consolidations"]) == (3, 3, 1)
    assert before <= status["observed_at"] <= last["begun_at"] <= last["ended_at"] <= status["saved_at"] <= time.time()
    assert status["sets"] == dict(zip(("clean", "relabel", "unlabelled"), sizes, strict=True))
    assert (status["consolidation"]["running"], status["consolidation"]["epochs_done"]) == (True, 1)
    assert json.loads(json.dumps(status, allow_nan=False)) == status


def test_it_tells_of_a_consolidation_that_waits_to_be_gone_on_with(tmp_path: Path) -> None:
    learner = feed(tiny_learner(), IMAGES, LABELS)
    for _ in learner.consolidation(2):
        learner.save(tmp_path / "amid")
        break
    loaded = Learner.load(tmp_path / "amid", device="cpu")
    status = loaded.status()
    assert status["consolidation"] == {"running": False, "epochs_done": 1, "epochs": 2, "begun_at": None}
    assert sum(status["sets"].values()) == 12  # known from the save; times are not
    assert (status["saved_at"], status["observed_at"], status["last_consolidation"]) == (None, None, None)
    loaded.observe(IMAGES[:8], LABELS[:8])
    assert loaded.status()["last_consolidation"]["begun_at"] is None

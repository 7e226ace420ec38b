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
from tests.learner_samples import patterns, tiny_learner

IMAGES, LABELS = patterns(48)
NAMES = np.array(["cat", "dog", "owl"])


def fed(learner: Learner, n: int = 40, labels: Any = LABELS) -> Learner:
    for start in range(0, n, 8):
        learner.observe(IMAGES[start : start + 8], labels[start : start + 8])
    return learner


def of_class(status: dict[str, Any], figure: str) -> dict[Any, int]:
    return {known["label"]: known[figure] for known in status["classes"]}


@pytest.mark.parametrize("sampler", ["puridiver", "spr"])
def test_it_counts_what_came_and_what_is_held(sampler: str) -> None:
    learner = fed(tiny_learner(["cat", "dog", "owl", "yak"], sampler=sampler), labels=NAMES[LABELS])
    status = learner.status()
    held = [*learner.memory.samples.labels.tolist(), *learner.memory.waiting.labels.tolist()]
    assert (status["samples_seen"], status["classes_seen"]) == (40, 3)
    assert of_class(status, "seen") == {**Counter(NAMES[LABELS[:40]].tolist()), "yak": 0}
    assert of_class(status, "held") == {**Counter(NAMES[held].tolist()), "yak": 0}
    assert status["memory"] == {
        "held": len(held), "waiting": len(learner.memory.waiting), "checked": 0, "capacity": 12,
    }  # fmt: skip


def test_counts_follow_every_change_of_the_memory() -> None:
    learner = fed(tiny_learner(), 8)
    assert learner.status()["memory"]["held"] == 8
    arrival, label = int(learner.memory.samples.arrivals[0]), int(learner.memory.samples.labels[0])
    learner.correct({arrival: (label + 1) % 3})
    status = learner.status()
    assert of_class(status, "held") == {**dict.fromkeys(range(3), 0), **Counter(learner.memory.samples.labels.tolist())}
    assert of_class(status, "checked") == {**dict.fromkeys(range(3), 0), (label + 1) % 3: 1}
    assert status["memory"]["checked"] == 1
    fed(learner)
    assert learner.status()["memory"]["held"] == 12


def test_json_holds_it_as_it_is(tmp_path: Path) -> None:
    labels = NAMES[LABELS]
    learner = fed(tiny_learner(None), labels=labels)
    learner.correct({int(learner.memory.samples.arrivals[0]): labels[0].item()})
    learner.consolidate(3)
    learner.save(tmp_path)
    steps = learner.consolidation(2)
    next(steps)
    status = learner.status()
    assert status["consolidation"] is not None
    assert status["last_consolidation"] is not None
    assert json.loads(json.dumps(status, allow_nan=False)) == status


def test_it_tells_of_the_last_consolidation_and_its_sets() -> None:
    before = time.time()
    learner = fed(tiny_learner())
    learner.consolidate(3)
    status = learner.status()
    last, sizes = status["last_consolidation"], learner.trainer.sets.sizes()  # type: ignore[union-attr]
    assert (last["epochs_done"], last["epochs"], status["consolidations"]) == (3, 3, 1)
    assert before <= status["observed_at"] <= last["begun_at"] <= last["ended_at"] <= time.time()
    assert status["sets"] == dict(zip(("clean", "relabel", "unlabelled"), sizes, strict=True))
    assert sum(sizes) == 12
    assert status["consolidation"] is None


def test_it_tells_of_a_consolidation_that_waits_to_be_gone_on_with(tmp_path: Path) -> None:
    learner = fed(tiny_learner())
    for _ in learner.consolidation(2):
        learner.save(tmp_path / "amid")
        break
    assert learner.status()["saved_at"] is not None
    loaded = Learner.load(tmp_path / "amid", device="cpu")
    status = loaded.status()
    assert status["consolidation"] == {"running": False, "epochs_done": 1, "epochs": 2, "begun_at": None}
    assert sum(status["sets"].values()) == 12  # known from the save; times are not
    assert (status["saved_at"], status["observed_at"], status["last_consolidation"]) == (None, None, None)
    loaded.observe(IMAGES[:8], LABELS[:8])
    assert loaded.status()["last_consolidation"]["begun_at"] is None

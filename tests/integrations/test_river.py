"""The wrapper for river against river's own checks; the page's code validates it progressively."""

from __future__ import annotations

import itertools

import pytest

river = pytest.importorskip("river", reason="river is not installed")

from river import checks, datasets  # noqa: E402

from puridiver.integrations.river import PuriDivERClassifier  # noqa: E402

MODEL = PuriDivERClassifier(memory=50, consolidate_every=300, epochs=3)
SLOW = {"check_bounded_memory_growth"}  # seconds; the memory is bounded by its size
# By name: river repeats them on several sets, and one is enough here.
CHECKS = {check.__name__: check for check in checks.yield_checks(MODEL)}


@pytest.mark.parametrize("name", sorted(CHECKS.keys() - MODEL._unit_test_skips() - SLOW))
def test_rivers_own_checks_pass(name: str) -> None:
    CHECKS[name](MODEL.clone())


def test_samples_are_collected_and_classes_join() -> None:
    model = PuriDivERClassifier(memory=50, consolidate_every=400, epochs=3)
    rows = list(itertools.islice(datasets.ImageSegments(), 500))
    for x, y in rows:
        model.learn_one(x, y)
    assert model._student.learner.seen == 497  # the first at once, then 31 batches of 16
    assert model._student.learner.consolidations == 1
    assert sum(model.predict_one(x) == y for x, y in rows) > 250


def test_a_batch_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="batch should be at least 1, but got 0"):
        PuriDivERClassifier(batch=0)

"""The wrapper for river against river's own checks; the page's code validates it progressively."""

from __future__ import annotations

import itertools

import pandas as pd
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


def test_frames_are_learnt_whole_and_after_what_waits() -> None:
    model = PuriDivERClassifier(memory=50, consolidate_every=400, epochs=3)
    rows = list(itertools.islice(datasets.ImageSegments(), 501))
    for x, y in rows[:5]:
        model.learn_one(x, y)
    parts = [rows[start : start + 100] for start in range(5, 501, 100)]
    frames = [(pd.DataFrame([x for x, _ in part]), pd.Series([y for _, y in part])) for part in parts]
    for x, y in frames:
        model.learn_many(x, y)
    assert model._student.learner.seen == 501
    assert model._student.learner.consolidations == 1
    x, y = frames[0]
    assert (model.predict_many(x) == y).mean() > 0.5
    assert model.predict_proba_many(x).shape == (100, y.nunique())


def test_a_batch_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="batch should be at least 1, but got 0"):
        PuriDivERClassifier(batch=0)

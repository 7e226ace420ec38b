"""The sentence that says why a label is doubted."""

from __future__ import annotations

from puridiver.auditing.words import why


def test_what_no_learner_says_is_no_more_than_perhaps() -> None:
    doubted = {"given": "square", "suggested": "circle", "p_correct": 0.01, "leads": True, "asked": 2}
    votes = {"vote_given": 0.1, "vote_suggested": 0.51, "confused": 0.0}
    assert why(**doubted, **votes, agreeing=2).startswith("looks like circle: 2 of 2 learners say circle")
    alone = why(**doubted, **votes, agreeing=0)
    assert alone.startswith("probably wrong, perhaps circle: none of 2 learners says circle, 51% of similar images")

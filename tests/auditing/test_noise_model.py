"""The noise model finds the confusion matrix that was used, and its interval holds the rate as often as it says."""

from __future__ import annotations

import numpy as np
import pytest

from puridiver.auditing import noise_model
from puridiver.auditing.noise_model import LEVEL, Evidence, estimate_rates
from puridiver.data import UNKNOWN


def drawn(n: int, confusion: np.ndarray, seed: int, clarity: float = 3.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, given and true labels that follow the model: the true class by the softmax of the scores."""
    rng, classes = np.random.default_rng(seed), len(confusion)
    scores = rng.normal(size=(n, classes)) * clarity
    p = noise_model.sharpened(scores, 1.0)
    true = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=classes - 1)
    given = (confusion[true].cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=classes - 1)
    return scores, given, true


def fit(scores: np.ndarray, given: np.ndarray) -> noise_model.NoiseModel:
    return noise_model.fit_noise_model(scores, given, np.full(len(given), UNKNOWN))


def symmetric(classes: int, rate: float) -> np.ndarray:
    return noise_model.even_confusion(classes, 1 - rate)


NEXT = 0.7 * np.eye(4) + 0.3 * np.roll(np.eye(4), 1, axis=1)


@pytest.mark.parametrize("confusion", [symmetric(4, 0.0), symmetric(4, 0.4), NEXT])
def test_it_finds_the_confusion_that_made_the_labels_and_is_calibrated(confusion):
    scores, given, true = drawn(3000, confusion, seed=1)
    model, rows = fit(scores, given), np.arange(3000)
    assert np.abs(model.confusion - confusion).max() < 0.06
    assert 0.75 < model.sharpness < 1.35
    p = model.posterior(scores, given)[rows, given]
    assert abs((1 - p).mean() - (given != true).mean()) < 0.025
    for inside in (p < 0.5, p >= 0.8):
        assert inside.sum() < 100 or abs(p[inside].mean() - (given == true)[inside].mean()) < 0.05
    lower = scores.copy()
    lower[rows, given] -= 1  # a label that the scores like less is no more probable
    assert (model.posterior(lower, given)[rows, given] <= p).all()


def test_the_interval_holds_the_true_rate_about_as_often_as_it_says(monkeypatch):
    monkeypatch.setattr(noise_model, "DRAWS", 40)
    held = 0
    for seed in range(12):
        scores, given, true = drawn(300, symmetric(3, 0.25), seed=100 + seed)
        evidence = Evidence(scores[None], np.ones((1, 300)), scores.argmax(axis=1)[None], np.zeros((300, 3)))
        model = fit(scores, given)
        noise, *by_class = estimate_rates(evidence, given, model, np.full(300, UNKNOWN), seed)
        held += noise.low <= (given != true).mean() <= noise.high
        assert 0 <= noise.low <= noise.rate <= noise.high <= 1
        assert sum(rate.count for rate in by_class) == 300
    assert LEVEL == 0.95
    assert held >= 9  # of 12: fewer come by chance once in 450 if 95 % is true


def test_a_review_of_the_worst_labels_does_not_make_the_others_look_clean():
    scores, given, true = drawn(2000, symmetric(5, 0.2), seed=6, clarity=6)
    rows, wrong, truth = np.arange(2000), given != true, np.full(2000, UNKNOWN)
    doubtful = np.argsort(fit(scores, given).posterior(scores, given)[rows, given])[: round(0.5 * wrong.sum())]
    truth[doubtful] = true[doubtful]
    left = truth == UNKNOWN
    model = noise_model.fit_noise_model(scores, given, truth)
    assert np.abs(model.confusion - symmetric(5, 0.2)).max() < 0.05
    estimate = 1 - model.posterior(scores, given)[rows, given][left].mean()
    assert estimate == pytest.approx(wrong[left].mean(), abs=0.01)
    assert np.trace(fit(scores[left], given[left]).confusion) / 5 > 0.85  # without the checked ones: too clean

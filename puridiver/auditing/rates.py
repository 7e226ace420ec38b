"""How many labels are wrong, in all and by class, with intervals from a bootstrap over samples and passes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from puridiver.auditing.evidence import Evidence
from puridiver.auditing.noise_model import BOOTSTRAP_ROUNDS, NoiseModel, expectation_maximisation, responsibilities

DRAWS = 200
LEVEL = 0.95


@dataclass(frozen=True)
class Rate:
    """An estimated share of wrong labels, with the bounds of its interval."""

    rate: float
    low: float
    high: float
    count: int  # labels that it is a share of


def estimate_rates(
    evidence: Evidence, given: np.ndarray, model: NoiseModel, among: np.ndarray, seed: int
) -> tuple[Rate, list[Rate]]:
    """The share of wrong labels among the chosen samples (mask), overall and for each given label.

    The interval holds the middle of `DRAWS` estimates, each from samples and passes drawn with replacement and the
    confusion matrix fitted anew. It knows how much chance is in the samples and the learners; it does not know if
    all learners are wrong in the same way.
    """
    rng, classes = np.random.default_rng(seed), evidence.pass_scores.shape[2]
    posterior = model.posterior(evidence.scores(), given)
    best = wrong_shares(posterior, given, among.astype(float), classes)
    draws = np.stack([_draw(evidence, given, model, among, rng) for _ in range(DRAWS)])
    spread = (1 - LEVEL) / 2
    # Around the estimate itself: what differs between draws and their own middle is chance.
    low, high = np.nanquantile(draws, [spread, 1 - spread], axis=0)
    counts = np.concatenate([[among.sum()], np.bincount(given[among], minlength=classes)])
    rates = [
        Rate(float(b), float(min(lo, b)), float(max(hi, b)), int(n))
        for b, lo, hi, n in zip(best, low, high, counts, strict=True)
    ]
    return rates[0], rates[1:]


def _draw(
    evidence: Evidence, given: np.ndarray, model: NoiseModel, among: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    n_passes, n_samples = evidence.weights.shape
    passes = np.asarray(rng.integers(n_passes, size=n_passes))
    weights = np.bincount(rng.choice(np.flatnonzero(among), among.sum()), minlength=n_samples).astype(float)
    p = model.class_probabilities(evidence.scores(passes))
    confusion = expectation_maximisation(p, given, weights, model.confusion, BOOTSTRAP_ROUNDS)
    return wrong_shares(responsibilities(p, confusion, given), given, weights, p.shape[1])


def wrong_shares(posterior: np.ndarray, given: np.ndarray, weights: np.ndarray, classes: int) -> np.ndarray:
    """The share of wrong labels overall, then for each given label, (1 + C,); 0 where there is no label."""
    wrong = (1 - posterior[np.arange(len(given)), given]) * weights
    totals = np.concatenate([[weights.sum()], np.bincount(given, weights, classes)])
    sums = np.concatenate([[wrong.sum()], np.bincount(given, wrong, classes)])
    return sums / np.where(totals > 0, totals, 1)

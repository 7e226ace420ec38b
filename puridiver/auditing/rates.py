"""How many labels are wrong, in all and by class, with intervals from a bootstrap over samples and passes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from puridiver.auditing.evidence import Evidence
from puridiver.auditing.noise_model import (
    BOOTSTRAP_ROUNDS,
    UNKNOWN,
    NoiseModel,
    expectation_maximisation,
    responsibilities,
    settled,
)

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
    evidence: Evidence, given: np.ndarray, model: NoiseModel, truth: np.ndarray, seed: int
) -> tuple[Rate, list[Rate]]:
    """The share of wrong labels among those whose truth is UNKNOWN, overall and for each given label.

    `given` are the labels as they came, and `truth` what a person said of some, as for `fit_noise_model`. The
    interval holds the middle of `DRAWS` estimates, each from samples and passes drawn with replacement, the confusion
    matrix fitted anew, and each label then wrong or right by its probability. It knows how much chance is in the
    samples and the learners; it does not know if all learners are wrong in the same way.
    """
    rng, classes = np.random.default_rng(seed), evidence.pass_scores.shape[2]
    among = truth == UNKNOWN
    posterior = model.posterior(evidence.scores(), given)
    wrong = 1 - posterior[np.arange(len(given)), given]
    best = wrong_shares(wrong, given, among.astype(float), classes)
    draws = np.stack([_draw(evidence, given, model, truth, rng) for _ in range(DRAWS)])
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
    evidence: Evidence, given: np.ndarray, model: NoiseModel, truth: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    n_passes, n_samples = evidence.weights.shape
    passes = np.asarray(rng.integers(n_passes, size=n_passes))
    weights = np.bincount(rng.choice(n_samples, n_samples), minlength=n_samples).astype(float)
    p = settled(model.class_probabilities(evidence.scores(passes)), truth)
    confusion = expectation_maximisation(p, given, weights, model.confusion, BOOTSTRAP_ROUNDS)
    doubt = 1 - responsibilities(p, confusion, given)[np.arange(n_samples), given]
    wrong = rng.random(n_samples) < doubt  # what is meant is how many are wrong, not how many are to be expected
    return wrong_shares(wrong, given, weights * (truth == UNKNOWN), p.shape[1])


def wrong_shares(wrong: np.ndarray, given: np.ndarray, weights: np.ndarray, classes: int) -> np.ndarray:
    """The share of wrong labels overall, then for each given label, (1 + C,); 0 where there is no label.

    `wrong` (N,) is how probably, or whether, each label is wrong.
    """
    counted = wrong * weights
    totals = np.concatenate([[weights.sum()], np.bincount(given, weights, classes)])
    sums = np.concatenate([[counted.sum()], np.bincount(given, counted, classes)])
    return sums / np.where(totals > 0, totals, 1)

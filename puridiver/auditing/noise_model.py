"""How likely each given label is right, and how many are wrong: a confusion matrix fitted to out-of-sample scores.

The true class of a sample follows softmax(sharpness * scores), and its given label the row of a confusion matrix T
that belongs to the true class:

    p(given y | x) = sum_c softmax(sharpness * scores(x))_c T[c, y]

T and the sharpness maximise the likelihood of the given labels (EM, and a search over the sharpness). Then
p(true = given | x, given) is the probability that a label is right, and its mean is the share of right labels.

Checked labels take part with the label they came with, their true class being known. Without them the model would see
a set without its clearest mistakes, and take the remaining wrong labels for images that are hard to tell.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from puridiver.auditing.passes import Predictions
from puridiver.data.base import UNKNOWN

# A network is surer than it should be. Chosen on planted noise, with the number of neighbours (docs/audit.md).
NETWORK_WEIGHT = 0.3
SMALLEST_SHARE = 0.01  # of a class among the neighbours' labels, so that its logarithm is finite
SHARPNESSES = np.geomspace(0.1, 10, 17)
EM_ROUNDS, BOOTSTRAP_ROUNDS = 30, 10  # a drawn sample moves the fitted matrix only a little
# Pseudo-counts: of each class, samples with the set's own noise rate and no preferred class; of the set, a few
# samples of which 90 % are right.
PRIOR_WEIGHT, FIRST_WEIGHT, FIRST_RIGHT = 30.0, 5.0, 0.9
SMALLEST = 1e-12
DRAWS, LEVEL = 200, 0.95  # of the bootstrap, and of its intervals


class Evidence(NamedTuple):
    """What all passes say of every sample. A pass counts 0 for the samples that it kept in its memory."""

    pass_scores: ndarray  # float64 (P, N, C): each pass's log-probabilities up to a constant
    weights: ndarray  # float64 (P, N); all 1 for a sample that every pass kept
    choices: ndarray  # int64 (P, N): the class that each pass's network predicts
    votes: ndarray  # float64 (N, C): mean shares of the neighbours' labels

    def scores(self, passes: ndarray | slice = slice(None)) -> ndarray:
        """Mean scores of these passes (which may repeat), by default of all, (N, C)."""
        return mean_over_passes(self.weights[passes], self.pass_scores[passes])


def mean_over_passes(weights: ndarray, values: ndarray) -> ndarray:
    """Weighted mean, (N, C), of (P, N, C) values with (P, N) weights; plain where all weights are 0."""
    weights = np.where(weights.any(axis=0), weights, 1.0)
    return np.einsum("pn,pnc->nc", weights, values) / weights.sum(axis=0)[:, None]


def combine(predictions: Sequence[Predictions]) -> Evidence:
    """Combine each pass's network and neighbours."""
    votes = np.stack([t.votes.astype(np.float64) for t in predictions])
    networks = np.stack([t.scores.astype(np.float64) for t in predictions])
    weights = np.stack([(~t.in_memory).astype(np.float64) for t in predictions])
    weights[:, ~weights.any(axis=0)] = 1
    scores = NETWORK_WEIGHT * networks + np.log(votes + SMALLEST_SHARE)
    return Evidence(scores, weights, networks.argmax(axis=2), mean_over_passes(weights, votes))


class NoiseModel(NamedTuple):
    """A fitted model: `confusion[c, y]` is how often class c is labelled y; rows sum to 1."""

    sharpness: float
    confusion: ndarray
    log_likelihood: float

    def posterior(self, scores: ndarray, given: ndarray) -> ndarray:
        """p(true class | x, given label), (N, C)."""
        return responsibilities(sharpened(scores, self.sharpness), self.confusion, given)


def fit_noise_model(scores: ndarray, given: ndarray, truth: ndarray) -> NoiseModel:
    """The sharpness and the confusion matrix that explain the given labels best.

    `scores` (N, C) are log-probabilities up to a constant. `given` (N,) are the labels as they came. `truth` (N,) is
    the true class where a person has checked it, and UNKNOWN elsewhere.
    """
    fits = [_fit_at(float(sharpness), scores, given, truth) for sharpness in SHARPNESSES]
    best = int(np.argmax([fit.log_likelihood for fit in fits]))
    low, high = SHARPNESSES[max(best - 1, 0)], SHARPNESSES[min(best + 1, len(SHARPNESSES) - 1)]
    closer = [_fit_at(float(sharpness), scores, given, truth) for sharpness in np.geomspace(low, high, 7)[1:-1]]
    return max([fits[best], *closer], key=lambda fit: fit.log_likelihood)


def _fit_at(sharpness: float, scores: ndarray, given: ndarray, truth: ndarray) -> NoiseModel:
    p = sharpened(scores, sharpness)
    believed, start = settled(p, truth), even_confusion(scores.shape[1], FIRST_RIGHT)
    confusion = expectation_maximisation(believed, given, np.ones(len(given)), start, EM_ROUNDS)
    known = np.flatnonzero(truth != UNKNOWN)
    foreseen = float(np.log(p[known, truth[known]] + SMALLEST).sum())  # of the checked classes, by the scores alone
    likelihood = float(np.log((believed * confusion[:, given].T).sum(axis=1) + SMALLEST).sum())
    return NoiseModel(sharpness, confusion, likelihood + foreseen)


def settled(p: ndarray, truth: ndarray) -> ndarray:
    """The class probabilities, certain where the true class is known."""
    known = (truth != UNKNOWN)[:, None]
    return np.where(known, truth[:, None] == np.arange(p.shape[1]), p).astype(p.dtype)


def expectation_maximisation(p: ndarray, given: ndarray, weights: ndarray, confusion: ndarray, rounds: int) -> ndarray:
    """The confusion matrix after so many rounds of EM from a first one; samples count by their weights."""
    classes = p.shape[1]
    for _ in range(rounds):
        share = responsibilities(p, confusion, given) * weights[:, None]
        counts = np.stack([np.bincount(given, column, classes) for column in share.T])
        right = (np.trace(counts) + FIRST_WEIGHT * FIRST_RIGHT) / (counts.sum() + FIRST_WEIGHT)
        smoothed = counts + PRIOR_WEIGHT * even_confusion(classes, right)
        confusion = smoothed / smoothed.sum(axis=1, keepdims=True)
    return confusion


def responsibilities(p: ndarray, confusion: ndarray, given: ndarray) -> ndarray:
    """p(true class | x, given label), (N, C)."""
    joint = p * confusion[:, given].T + SMALLEST
    return joint / joint.sum(axis=1, keepdims=True)


def even_confusion(classes: int, right: float) -> ndarray:
    """Every class is labelled right with the same probability, and otherwise as any other class."""
    wrong = (1 - right) / (classes - 1)
    return np.full((classes, classes), wrong) + np.eye(classes) * (right - wrong)


def sharpened(scores: ndarray, sharpness: float) -> ndarray:
    e = np.exp(sharpness * (scores - scores.max(axis=1, keepdims=True)))
    return e / e.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Rate:
    """An estimated share of wrong labels, and the bounds of its interval."""

    rate: float
    low: float
    high: float
    count: int  # labels that it is a share of


def estimate_rates(evidence: Evidence, given: ndarray, model: NoiseModel, truth: ndarray, seed: int) -> list[Rate]:
    """The share of wrong labels among those whose truth is UNKNOWN, overall and then for each given label.

    The interval holds the middle of DRAWS bootstrap estimates over samples and passes. It covers the chance in samples
    and learners, and not an error that all learners share.
    """
    rng, rows, among = np.random.default_rng(seed), np.arange(len(given)), truth == UNKNOWN
    (n_passes, n_samples, classes), draws = evidence.pass_scores.shape, []
    for _ in range(DRAWS):
        passes = np.asarray(rng.integers(n_passes, size=n_passes))
        weights = np.bincount(rng.choice(n_samples, n_samples), minlength=n_samples).astype(float)
        p = settled(sharpened(evidence.scores(passes), model.sharpness), truth)
        confusion = expectation_maximisation(p, given, weights, model.confusion, BOOTSTRAP_ROUNDS)
        doubt = 1 - responsibilities(p, confusion, given)[rows, given]
        wrong = rng.random(n_samples) < doubt  # the rate that came out, not the expected one
        draws.append(wrong_shares(wrong, given, weights * among, classes))
    low, high = np.nanquantile(np.stack(draws), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    doubt = 1 - model.posterior(evidence.scores(), given)[rows, given]
    best = wrong_shares(doubt, given, among.astype(float), classes)
    counts = np.append(among.sum(), np.bincount(given[among], minlength=classes))
    columns = (best, np.minimum(low, best), np.maximum(high, best), counts)
    return [Rate(*values) for values in zip(*(column.tolist() for column in columns), strict=True)]


def wrong_shares(wrong: ndarray, given: ndarray, weights: ndarray, classes: int) -> ndarray:
    """The share of wrong labels overall, then for each given label, (1 + C,); 0 where there is no label.

    `wrong` (N,) is how probably, or whether, each label is wrong.
    """
    totals, sums = (np.bincount(given, each, classes) for each in (weights, wrong * weights))
    totals, sums = np.append(weights.sum(), totals), np.append((wrong * weights).sum(), sums)
    return sums / np.where(totals > 0, totals, 1)

"""How likely is each given label, and how many are wrong: a confusion matrix fitted to out-of-sample scores.

A sample's true class is taken to follow softmax(sharpness * scores), and its given label to follow the row of a
confusion matrix T that belongs to the true class:

    p(given y | x) = sum_c softmax(sharpness * scores(x))_c T[c, y]

T and the sharpness are those that make the given labels most likely (EM, and a search over the sharpness). Then
p(true = given | x, given) is the probability that a label is right, and its mean over the samples is the share of
right labels. What makes T visible is that even the clearest images of a class keep its share of wrong labels.

Labels that a person has checked take part with the label they came with, their true class being known. Without them
the model would see a set whose clearest mistakes were taken out, and believe that clear images are hardly ever
labelled wrongly: what remains wrong would pass for images that are hard to tell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SHARPNESSES = np.geomspace(0.1, 10, 17)
EM_ROUNDS = 30
BOOTSTRAP_ROUNDS = 10  # from the fitted matrix on: a drawn sample moves it only a little
# Imagined samples of each class whose labels are as wrong as those of the whole set, with no class preferred: what a
# class's own few samples seem to say of it is believed only so far. Of the set itself it is thought at first, with
# the weight of a few samples, that 90 % of its labels are right.
PRIOR_WEIGHT, FIRST_WEIGHT, FIRST_RIGHT = 30.0, 5.0, 0.9
SMALLEST = 1e-12
UNKNOWN = -1  # in place of a true class that nobody has checked


@dataclass(frozen=True)
class NoiseModel:
    """A fitted model: `confusion[c, y]` is how often class c is labelled y; rows sum to 1."""

    sharpness: float
    confusion: np.ndarray
    log_likelihood: float

    def class_probabilities(self, scores: np.ndarray) -> np.ndarray:
        """p(true class | x), (N, C), before the given label is looked at."""
        return sharpened(scores, self.sharpness)

    def posterior(self, scores: np.ndarray, given: np.ndarray) -> np.ndarray:
        """p(true class | x, given label), (N, C)."""
        return responsibilities(self.class_probabilities(scores), self.confusion, given)


def fit_noise_model(scores: np.ndarray, given: np.ndarray, truth: np.ndarray | None = None) -> NoiseModel:
    """The sharpness and the confusion matrix that explain the given labels best.

    `scores` (N, C) are log-probabilities up to a constant, made without having learnt the sample's own label. `truth`
    (N,) holds the true class where a person has checked it, and UNKNOWN elsewhere; `given` are the labels as they
    came, also of these.
    """
    truth = np.full(len(given), UNKNOWN) if truth is None else truth
    fits = [_fit_at(float(sharpness), scores, given, truth) for sharpness in SHARPNESSES]
    best = int(np.argmax([fit.log_likelihood for fit in fits]))
    low, high = SHARPNESSES[max(best - 1, 0)], SHARPNESSES[min(best + 1, len(SHARPNESSES) - 1)]
    closer = [_fit_at(float(sharpness), scores, given, truth) for sharpness in np.geomspace(low, high, 7)[1:-1]]
    return max([fits[best], *closer], key=lambda fit: fit.log_likelihood)


def _fit_at(sharpness: float, scores: np.ndarray, given: np.ndarray, truth: np.ndarray) -> NoiseModel:
    classes = scores.shape[1]
    p = sharpened(scores, sharpness)
    believed = settled(p, truth)
    weights = np.ones(len(given))
    confusion = expectation_maximisation(believed, given, weights, even_confusion(classes, FIRST_RIGHT), EM_ROUNDS)
    known = np.flatnonzero(truth != UNKNOWN)
    foreseen = float(np.log(p[known, truth[known]] + SMALLEST).sum())  # how well the scores foretold what was checked
    return NoiseModel(sharpness, confusion, _log_likelihood(believed, given, confusion) + foreseen)


def settled(p: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The class probabilities, certain where the true class is known."""
    known = (truth != UNKNOWN)[:, None]
    return np.where(known, truth[:, None] == np.arange(p.shape[1]), p).astype(p.dtype)


def expectation_maximisation(
    p: np.ndarray, given: np.ndarray, weights: np.ndarray, confusion: np.ndarray, rounds: int
) -> np.ndarray:
    """The confusion matrix after so many rounds of EM from a first one; samples count by their weights."""
    classes = p.shape[1]
    for _ in range(rounds):
        share = responsibilities(p, confusion, given) * weights[:, None]
        counts = np.stack([np.bincount(given, column, classes) for column in share.T])
        right = (np.trace(counts) + FIRST_WEIGHT * FIRST_RIGHT) / (counts.sum() + FIRST_WEIGHT)
        smoothed = counts + PRIOR_WEIGHT * even_confusion(classes, right)
        confusion = smoothed / smoothed.sum(axis=1, keepdims=True)
    return confusion


def responsibilities(p: np.ndarray, confusion: np.ndarray, given: np.ndarray) -> np.ndarray:
    """p(true class | x, given label), (N, C)."""
    joint = p * confusion[:, given].T + SMALLEST
    return joint / joint.sum(axis=1, keepdims=True)


def even_confusion(classes: int, right: float) -> np.ndarray:
    """Every class is labelled rightly with the same probability, and else as any other with equal ones."""
    if classes == 1:
        return np.ones((1, 1))
    wrong = (1 - right) / (classes - 1)
    return np.full((classes, classes), wrong) + np.eye(classes) * (right - wrong)


def sharpened(scores: np.ndarray, sharpness: float) -> np.ndarray:
    z = sharpness * (scores - scores.max(axis=1, keepdims=True))
    e = np.exp(z)
    return e / e.sum(axis=1, keepdims=True)


def _log_likelihood(p: np.ndarray, given: np.ndarray, confusion: np.ndarray) -> float:
    return float(np.log((p * confusion[:, given].T).sum(axis=1) + SMALLEST).sum())

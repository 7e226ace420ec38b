"""The paper read aloud: every equation as the plainest loop, in float64, with nothing taken from the package.

Tests hold the package's fast forms against these. Names and symbols are the paper's; a set is a list of rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

Vector = Sequence[float] | np.ndarray
Matrix = Sequence[Sequence[float]] | np.ndarray


# Section 3.1: what the memory keeps ----------------------------------------------------------------------------


def relevant_elements(w: np.ndarray, j: int) -> list[int]:
    """Definition 1: the elements e with w(e, j) above the mean of w(e, c) over the classes; w is (C, d)."""
    n_classes, d = w.shape
    return [e for e in range(d) if w[j][e] > sum(w[c][e] for c in range(n_classes)) / n_classes]


def cosine(a: Vector, b: Vector) -> float:
    """The cosine of two vectors; 0 where one of them has no length."""
    length = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / length if length else 0.0


def relevant_cosine(f: np.ndarray, y: Sequence[int], w: np.ndarray, i: int, k: int) -> float:
    """cos(f_rel(x_i; y_i), f_rel(x_k; y_i)) with the irrelevant elements really cut out."""
    elements = relevant_elements(w, y[i])
    return cosine([f[i][e] for e in elements], [f[k][e] for e in elements])


def mean_cosine(f: np.ndarray, y: Sequence[int], w: np.ndarray, i: int, memory: Sequence[int]) -> float:
    """Equation 2, diversity term of x_i; 0 where the memory has no sample of its class."""
    same = [k for k in memory if y[k] == y[i]]
    return sum(relevant_cosine(f, y, w, i, k) for k in same) / len(same) if same else 0.0


def z_scores(values: dict[int, float], y: Sequence[int]) -> dict[int, float]:
    """The released program's scaling: each value less its class's mean, in units of its class's deviation."""
    result = {}
    for i in values:
        same = [values[k] for k in values if y[k] == y[i]]
        mean = sum(same) / len(same)
        deviation = math.sqrt(sum((v - mean) ** 2 for v in same) / len(same))
        result[i] = (values[i] - mean) / deviation if deviation > 1e-12 else 0.0
    return result


def scores(
    loss: Vector, f: np.ndarray, y: Sequence[int], w: np.ndarray, memory: Sequence[int], alpha: float, standardise: bool
) -> dict[int, float]:
    """Equation 2 for every memory row, from scratch."""
    purity_term = {i: float(loss[i]) for i in memory}
    diversity_term = {i: mean_cosine(f, y, w, i, memory) for i in memory}
    if standardise:
        purity_term, diversity_term = z_scores(purity_term, y), z_scores(diversity_term, y)
    return {i: (1 - alpha) * purity_term[i] + alpha * diversity_term[i] for i in memory}


def adaptive_alpha(batch_loss: float) -> float:
    """Equation 3."""
    return 0.5 * min(1 / batch_loss, 1) if batch_loss > 0 else 0.5


def algorithm_1(
    loss: Vector, f: np.ndarray, y: Sequence[int], w: np.ndarray, n_old: int, capacity: int, alpha: float,
    standardise: bool = False,
) -> list[int]:  # fmt: skip
    """The supplement's Algorithm 1, lines 7 to 9: add one sample, remove the highest score once there are too many."""
    memory = list(range(n_old))
    for i in range(n_old, len(y)):
        memory.append(i)
        if len(memory) > capacity:
            s = scores(loss, f, y, w, memory, alpha, standardise)
            memory.remove(max(memory, key=lambda k: s[k]))
    return memory


# Section 3.2: how the memory is used ---------------------------------------------------------------------------


def softmax(logits: Vector) -> list[float]:
    top = max(logits)
    powers = [math.exp(v - top) for v in logits]
    return [p / sum(powers) for p in powers]


def cross_entropy(logits: Vector, target: Vector) -> float:
    """-sum_c target_c log p_m(x, c)."""
    return -sum(t * math.log(p) for t, p in zip(target, softmax(logits), strict=True))


def one_hot(label: int, n_classes: int) -> list[float]:
    return [1.0 if c == label else 0.0 for c in range(n_classes)]


def posterior(value: float, means: Vector, variances: Vector, weights: Vector) -> float:
    """Equation 4: Bayes' rule for component 0 of two Gaussians."""
    joint = [
        p * math.exp(-((value - m) ** 2) / (2 * v)) / math.sqrt(2 * math.pi * v)
        for m, v, p in zip(means, variances, weights, strict=True)
    ]
    return joint[0] / sum(joint)


def split_at_half(p: Vector, among: Sequence[int]) -> tuple[list[int], list[int]]:
    """Equations 5 and 7."""
    return [i for i in among if p[i] >= 0.5], [i for i in among if p[i] < 0.5]


def uncertainty(p_m: Vector) -> float:
    """Equation 6."""
    return 1.0 - max(p_m)


def refurbished(p_u: float, p_m: Vector, label: int) -> list[float]:
    """Equation 8."""
    return [p_u * p + (1.0 - p_u) * y for p, y in zip(p_m, one_hot(label, len(p_m)), strict=True)]


def classification_loss(losses: Vector, clean: Sequence[int], relabel: Sequence[int]) -> float:
    """Equation 9."""
    total = sum(losses[i] for i in clean) + sum(losses[j] for j in relabel)
    return total / (len(clean) + len(relabel)) if len(clean) + len(relabel) else 0.0


def consistency_distance(strong: Vector, weak: Vector) -> float:
    """Equation 10 for one sample."""
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(softmax(strong), softmax(weak), strict=True)))


def consistency_loss(strong: Matrix, weak: Matrix, unlabelled: Sequence[int]) -> float:
    """Equation 10."""
    distances = [consistency_distance(strong[i], weak[i]) for i in unlabelled]
    return sum(distances) / len(distances) if distances else 0.0


# Section 4: metrics --------------------------------------------------------------------------------------------


def purity(y_given: Sequence[int], y_true: Sequence[int]) -> float:
    """Equation 12, first line."""
    return sum(1 for a, b in zip(y_given, y_true, strict=True) if a == b) / len(y_given)


def diversity(f: np.ndarray, y_true: Sequence[int], n_classes: int) -> float:
    """Equation 12, second line: over the unordered pairs of each true class; a class without a pair adds 0."""
    total = 0.0
    for c in range(n_classes):
        members = [i for i in range(len(y_true)) if y_true[i] == c]
        pairs = [(i, j) for i in members for j in members if i < j]
        for i, j in pairs:
            total += 2 / (len(members) * (len(members) - 1)) * math.dist(f[i], f[j])
    return total / n_classes


# The mixture, by another's hand --------------------------------------------------------------------------------


def two_means_cut(values: Sequence[float]) -> float:
    """The largest value of the lower group in the best split of a line into two groups (all cuts tried)."""
    ordered = sorted(values)

    def scatter(group: list[float]) -> float:
        mean = sum(group) / len(group)
        return sum((v - mean) ** 2 for v in group)

    cuts = [k for k in range(1, len(ordered)) if ordered[k] > ordered[k - 1]]
    best = min(cuts, key=lambda k: scatter(ordered[:k]) + scatter(ordered[k:]))
    return ordered[best - 1]


def sklearn_posterior(
    values: np.ndarray, scale: bool = False, iterations: int = 100, tolerance: float = 1e-3, floor: float = 1e-6
) -> np.ndarray:
    """Equation 4 by scikit-learn: posterior of the smaller mean, EM started from the best 2-means partition."""
    x = (values - values.min()) / (values.max() - values.min()) if scale else values
    cut = two_means_cut(x.tolist())
    groups = [x[x <= cut], x[x > cut]]
    model = GaussianMixture(
        2,
        max_iter=iterations,
        tol=tolerance,
        reg_covar=floor,
        weights_init=[len(g) / len(x) for g in groups],
        means_init=[[g.mean()] for g in groups],
        precisions_init=[[[1 / (g.var() + floor)]] for g in groups],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # ten iterations are not always enough
        model.fit(x[:, None])
    return model.predict_proba(x[:, None])[:, model.means_[:, 0].argmin()]


# Parts of the baselines ----------------------------------------------------------------------------------------


def stride_picks(uncertainty: Vector, labels: Sequence[int], quota: Sequence[int]) -> list[int]:
    """Rainbow Memory: of each class from the surest on, every (|class| // quota)-th sample, until the quota is met."""
    picks = []
    for c, q in enumerate(quota):
        ordered = sorted((i for i in range(len(labels)) if labels[i] == c), key=lambda i: (uncertainty[i], i))
        picks += ordered[:: max(1, len(ordered) // max(1, q))][:q]
    return sorted(picks)


def variance_ratio(votes: Sequence[int]) -> float:
    """Rainbow Memory: one minus the share of the most frequent prediction over the perturbed copies."""
    return 1 - max(list(votes).count(c) for c in set(votes)) / len(votes)


# Robust losses beyond the paper --------------------------------------------------------------------------------


def mean_over_labels(of_label: Vector, target: Vector) -> float:
    """Of a soft target: the loss of each label by its share."""
    return sum(share * loss for share, loss in zip(target, of_label, strict=True))


def generalised_cross_entropy(logits: Vector, target: Vector, q: float) -> float:
    """Zhang and Sabuncu (2018), Eq. 6: (1 - p_y^q) / q."""
    p = softmax(logits)
    return mean_over_labels([(1 - p[y] ** q) / q for y in range(len(p))], target)


def symmetric_cross_entropy(logits: Vector, target: Vector, alpha: float, beta: float, log_zero: float) -> float:
    """Wang et al. (2019), Eqs. 5 to 8: alpha * H(y, p) + beta * H(p, y), log 0 = A."""
    p, n = softmax(logits), len(logits)
    of_label = []
    for y in range(n):
        label = one_hot(y, n)
        forward = -sum(label[c] * math.log(p[c]) for c in range(n) if label[c])
        reverse = -sum(p[c] * (math.log(label[c]) if label[c] else log_zero) for c in range(n))
        of_label.append(alpha * forward + beta * reverse)
    return mean_over_labels(of_label, target)


def early_learning_average(before: Vector, logits: Vector, decay: float) -> list[float]:
    """Liu et al. (2020), Eq. 9, with probabilities kept within 1e-4 of 0 and 1 as their program has it."""
    p = [min(max(value, 1e-4), 1 - 1e-4) for value in softmax(logits)]
    return [decay * t + (1 - decay) * value / sum(p) for t, value in zip(before, p, strict=True)]


def early_learning_loss(logits: Vector, target: Vector, average: Vector, weight: float) -> float:
    """Liu et al. (2020), Eq. 6: cross-entropy + lambda * log(1 - <p, t>)."""
    p = [min(max(value, 1e-4), 1 - 1e-4) for value in softmax(logits)]
    agreement = sum(value * t for value, t in zip(p, average, strict=True))
    return cross_entropy(logits, target) + weight * math.log(1 - agreement)


# Baselines of continual learning -------------------------------------------------------------------------------


def asymmetric_cross_entropy(logits: Matrix, labels: Sequence[int], n_stream: int) -> float:
    """ER-ACE: the stream's samples among the classes of the stream batch, replayed ones among all."""
    present = sorted(set(labels[:n_stream]))
    if len(present) == 1:  # nothing to tell apart
        present = list(range(len(logits[0])))
    total = 0.0
    for i in range(n_stream):
        among = [logits[i][c] for c in present]
        total -= math.log(softmax(among)[present.index(labels[i])]) / n_stream
    for i in range(n_stream, len(labels)):
        total -= math.log(softmax(logits[i])[labels[i]]) / (len(labels) - n_stream)
    return total


def logit_distance(logits: Matrix, kept: Matrix) -> float:
    """DER: the mean squared difference where the kept logits are known."""
    pairs = [(a, b) for row, old in zip(logits, kept, strict=True) for a, b in zip(row, old, strict=True) if b == b]
    return sum((a - b) ** 2 for a, b in pairs) / len(pairs)


def importance_after(importance: Vector, decrease: float, trained: Sequence[int], decay: float) -> list[float]:
    """CLIB: the samples of a training batch move towards the fall of the memory's loss."""
    mean = sum(importance[i] for i in trained) / len(trained)
    return [h + (1 - decay) * (decrease - mean) if i in trained else h for i, h in enumerate(importance)]


def asymmetric_drop_chances(losses: Vector, current: Sequence[bool]) -> list[float]:
    """ABS: a group by its share of the memory; in it by scaled loss, or by 1 - it for classes that have passed."""
    found = [0.0] * len(losses)
    for of_current in (True, False):
        group = [i for i, flag in enumerate(current) if flag == of_current]
        low, high = (f((losses[i] for i in group), default=0.0) for f in (min, max))
        scaled = [(losses[i] - low) / (high - low) for i in group]
        scores = scaled if of_current else [1 - s for s in scaled]
        for i, score in zip(group, scores, strict=True):
            found[i] = len(group) / len(losses) * score / sum(scores)
    return found


def divergence(p: Vector, label: int) -> float:
    """CNLL: the Jensen-Shannon divergence of a prediction from its label."""
    y = one_hot(label, len(p))
    m = [(a + b) / 2 for a, b in zip(p, y, strict=True)]
    parts = [sum(a * math.log(a / c) for a, c in zip(q, m, strict=True) if a) for q in (p, y)]
    return sum(parts) / 2

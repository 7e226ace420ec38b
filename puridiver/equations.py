"""The paper's equations as pure functions, one each, with the paper's symbols as argument names.

Everything here takes and returns tensors of any device and keeps no state. Sets are boolean masks over the memory,
so that shapes never depend on the data. `docs/fidelity.md` maps each number to its function and its test.
Equation 1 (what a blurry stream is) lives in `puridiver.streams.tasks`, equation 4 (the mixture's posterior) in
`puridiver.mixture`.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def label_margin(logits: Tensor, y: Tensor) -> Tensor:
    """By how much the likeliest class beats the given label y, (N,): 0 where the network agrees with the label.

    Unlike the loss it does not tell hard examples with right labels from easy ones, so a memory keeps both.
    """
    return logits.max(dim=1).values - logits.gather(1, y[:, None]).squeeze(1)


def relevant_mask(w: Tensor) -> Tensor:
    """Definition 1: which features matter to which class: weight above the feature's mean weight over classes.

    `w` is the classifier's weight, (C, d); the result is boolean, (C, d).
    """
    return w > w.mean(dim=0, keepdim=True)


def relevant_directions(f: Tensor, y: Tensor, w: Tensor) -> Tensor:
    """Definition 1: unit vectors of the relevant representations f_rel(x_i; y_i), (N, d).

    Features that are irrelevant to class y_i are set to 0 instead of being cut out: two samples of one class share
    the same mask, so their cosine is unchanged. A representation without any relevant part stays the zero vector.
    """
    return F.normalize(f * relevant_mask(w)[y], dim=1)


def standardise_within_class(values: Tensor, y: Tensor, in_memory: Tensor, n_classes: int) -> Tensor:
    """The released program's variant of equation 2: z-scores of a term over the memory samples of one class.

    `values` is (N,), or (terms, N) for several terms at once.
    """
    members = in_memory.to(values.dtype)
    counts = values.new_zeros(n_classes).index_add_(0, y, members).clamp(min=1)
    zeros = values.new_zeros(*values.shape[:-1], n_classes)
    mean = zeros.index_add(-1, y, values * members) / counts
    centred = values - mean[..., y]
    variance = zeros.index_add(-1, y, centred.square() * members) / counts
    return centred / _deviation(variance, mean)[..., y]


def standardise_among(values: Tensor, members: Tensor) -> Tensor:
    """`standardise_within_class` where all members are of one class: z-scores of `values` (terms, N) over them."""
    weight = members.to(values.dtype)
    count = weight.sum().clamp(min=1)
    mean = (values * weight).sum(dim=-1, keepdim=True) / count
    centred = values - mean
    variance = (centred.square() * weight).sum(dim=-1, keepdim=True) / count
    return centred / _deviation(variance, mean)


def _deviation(variance: Tensor, mean: Tensor) -> Tensor:
    """Mere rounding must not become z-scores of ±1 (two samples always have equal mean cosines)."""
    return variance.sqrt().maximum(1e-4 * mean.abs() + 1e-8)


def score(loss: Tensor, similarity: Tensor, alpha: Tensor | float) -> Tensor:
    """Equation 2: S(x_i, y_i) = (1 - alpha_k) * loss + alpha_k * mean cosine. High means: drop."""
    return (1 - alpha) * loss + alpha * similarity


def adaptive_alpha(batch_loss: Tensor) -> Tensor:
    """Equation 3: alpha_k = 0.5 * min(1 / loss of the k-th batch, 1); 0 where the loss is not finite."""
    loss = torch.nan_to_num(batch_loss, nan=torch.inf, posinf=torch.inf)
    return 0.5 * (1 / loss.clamp(min=1e-12)).clamp(max=1)


def split_by_posterior(p_g: Tensor, among: Tensor) -> tuple[Tensor, Tensor]:
    """Equations 5 and 7: the samples of `among` with posterior >= 0.5 and the others, as two masks."""
    chosen = among & (p_g >= 0.5)
    return chosen, among & ~chosen


def uncertainty(p_m: Tensor) -> Tensor:
    """Equation 6: U(x_i) = 1 - max_c p_m(x_i, c), from softmax outputs (N, C)."""
    return 1 - p_m.amax(dim=1)


def refurbish(p_u: Tensor, p_m: Tensor, y: Tensor) -> Tensor:
    """Equation 8: y^ = p_G(u | U(x)) * p_m(x) + (1 - p_G(u | U(x))) * one-hot y, (N, C)."""
    return p_u[:, None] * p_m + (1 - p_u)[:, None] * F.one_hot(y, p_m.shape[1]).to(p_m.dtype)


def soft_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """-sum_c target_c log softmax_c for each sample, (N,): the loss l of equations 2 to 9 for soft labels."""
    return -(targets * F.log_softmax(logits, dim=1)).sum(dim=1)


def among_present(logits: Tensor, targets: Tensor) -> Tensor:
    """Logits (N, C) in which classes that no target (N, C) has are out of the question: ER-ACE's view of a batch.

    A batch of one class, such as a single sample, keeps them all: else there would be nothing to learn.
    """
    absent = targets.sum(dim=0) == 0
    several = (~absent).sum() > 1
    return logits.masked_fill(absent & several, torch.finfo(logits.dtype).min)


def label_divergence(p: Tensor, y: Tensor) -> Tensor:
    """The Jensen-Shannon divergence of predictions (N, C) from one-hot labels (N,), (N,): by p_y alone."""
    p_y = p.gather(1, y[:, None]).squeeze(1).double().clamp(1e-12, 1)
    of_label = math.log(2) - torch.log1p(p_y)  # KL(y || m) with m = (p + y) / 2
    of_prediction = (1 - p_y) * math.log(2) + p_y * (2 * p_y / (1 + p_y)).log()  # KL(p || m)
    return (of_label + of_prediction) / 2


def purified(logits: Tensor, y: Tensor) -> Tensor:
    """CNLL's separation of samples that came together, bool (N,): labels no further from predictions than on average.

    Predictions are among the classes of these samples.
    """
    present = F.one_hot(y, logits.shape[1])
    divergence = label_divergence(among_present(logits.float(), present).softmax(dim=1), y)
    return divergence <= divergence.mean()


def negative_entropy(logits: Tensor) -> Tensor:
    """Mean of sum_c p_c log p_c: DivideMix's penalty on sure predictions in a warm-up under asymmetric noise."""
    log_p = F.log_softmax(logits, dim=1)
    return (log_p.exp() * log_p).sum(dim=1).mean()


def classification_loss(losses: Tensor, labelled: Tensor) -> Tensor:
    """Equation 9: mean loss over C and R together; 0 where both are empty."""
    weight = labelled.to(losses.dtype)
    return (losses * weight).sum() / weight.sum().clamp(min=1)


def consistency_distances(logits_strong: Tensor, logits_weak: Tensor) -> Tensor:
    """Equation 10: ||p_m(s(x)) - p_m(w(x))||_2 for each sample, (N,)."""
    return torch.linalg.vector_norm(logits_strong.softmax(dim=1) - logits_weak.softmax(dim=1), dim=1)


def logit_distances(logits_strong: Tensor, logits_weak: Tensor) -> Tensor:
    """The released program's variant of equation 10: mean squared difference of raw logits, (N,)."""
    return (logits_strong - logits_weak).square().mean(dim=1)


def consistency_loss(distances: Tensor, unlabelled: Tensor) -> Tensor:
    """Equation 10: mean distance over U; 0 where it is empty."""
    weight = unlabelled.to(distances.dtype)
    return (distances * weight).sum() / weight.sum().clamp(min=1)


def total_loss(l_cls: Tensor, l_reg: Tensor, eta: float) -> Tensor:
    """Equation 11: l(M) = l_cls(C and R) + eta * l_reg(U)."""
    return l_cls + eta * l_reg


def purity(y_given: Tensor, y_true: Tensor) -> float:
    """Equation 12: share of the memory whose given label is right; nan for an empty memory."""
    return float((y_given == y_true).double().mean()) if len(y_given) else float("nan")


def diversity(f: Tensor, y_true: Tensor, n_classes: int) -> float:
    """Equation 12: mean over classes of the mean pairwise distance of features within the true class.

    A class with fewer than two samples has no pair and adds 0, as the sum over pairs is empty.
    """
    total = 0.0
    for c in range(n_classes):
        members = f[y_true == c].double()
        if len(members) > 1:
            total += float(torch.pdist(members).mean())
    return total / n_classes

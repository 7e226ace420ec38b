"""How likely each label is right, by how central its sample is among those of the same label (SPR, section 3.2).

A two-component Beta mixture tells central samples from others in random graphs over each class.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

OUTLIERS = 0.05  # share of the centralities at either end that the mixture is not fitted to
SAME = 1e-6  # centralities that differ by far less are the same
WEAKEST_EDGE = 1e-5  # between any two samples of a class, so that no graph falls apart
POWER_ITERATIONS = 200
EDGE = 1e-4  # a Beta density has no value, or no finite one, at 0 and 1
START = ((1.0, 2.0), (2.0, 1.0))  # alpha, beta of the low and of the high component before the first step
CONCENTRATION = (1e-2, 1e7)  # bounds of alpha + beta: a component of one value has no variance


def clean_probability(
    features: Tensor, labels: Tensor, n_classes: int, n_graphs: int, generator: torch.Generator
) -> Tensor:
    """The probability of each sample's label, (N,): the mean over several random graphs of every class."""
    n = len(labels)
    draws = torch.rand(n_graphs, n, n, generator=generator).to(features.device, non_blocking=True)
    graphs = random_graphs(class_graph(features, labels), draws)
    centrality = eigenvector_centrality(graphs.double(), labels)  # (G, N)
    members = torch.arange(n_classes, device=labels.device)[:, None] == labels  # (C, N)
    posterior = central_posterior(centrality[:, None, :].expand(-1, n_classes, -1), members)
    return posterior.sum(dim=1).mean(dim=0).float()  # over C: each sample is in one class


def central_posterior(centrality: Tensor, members: Tensor) -> Tensor:
    """p(clean | centrality) of the members in each row of centralities (..., N); 0 for the others."""
    ranked = torch.where(members, centrality, math.inf).sort(dim=-1).values
    last = (members.sum(dim=-1, keepdim=True) - 1).clamp(min=0)
    places = ((last * share).round().long() for share in (OUTLIERS, 1 - OUTLIERS))
    low, high = (ranked.gather(-1, place.expand(*ranked.shape[:-1], 1)) for place in places)  # inf without members
    inside = members & (centrality >= low) & (centrality <= high)
    scaled = (centrality - low) / (high - low + SAME)
    return fit_beta_mixture(scaled, inside, members.expand_as(scaled))[0]


def class_graph(features: Tensor, labels: Tensor) -> Tensor:
    """Cosine similarity of samples with the same label, (N, N); 0 where negative, across classes and with itself."""
    u = F.normalize(features.float(), dim=1)
    same = (labels[:, None] == labels[None, :]).fill_diagonal_(False)
    return (u @ u.T).clamp(0, 1) * same


def random_graphs(similarity: Tensor, draws: Tensor) -> Tensor:
    """Graphs (G, N, N) that have each edge with its similarity for probability; draws in [0, 1), (G, N, N), decide."""
    upper = (draws < similarity).triu(diagonal=1)
    return (upper | upper.mT).to(similarity.dtype)


def eigenvector_centrality(adjacency: Tensor, labels: Tensor, iterations: int = POWER_ITERATIONS) -> Tensor:
    """The eigenvector of the largest eigenvalue within each class, of length 1 there, (..., N).

    By power iteration on all classes at once: edges (..., N, N) between classes must be 0. The matrix is shifted by
    the identity, which leaves the eigenvectors as they are and keeps a bipartite graph from swinging to and fro.
    """
    groups = (labels[:, None] == labels[None, :]).to(adjacency.dtype)
    connected = adjacency + WEAKEST_EDGE * groups
    x = torch.ones(adjacency.shape[:-1], dtype=adjacency.dtype, device=adjacency.device)
    for _ in range(iterations):
        x = x + (connected @ x[..., None]).squeeze(-1)
        x = x / (x.square() @ groups).sqrt()
    return x


def fit_beta_mixture(
    values: Tensor, used: Tensor, among: Tensor, iterations: int = 10
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Fit two Beta distributions to each row of values (..., N) where `used` is True; component 1 has the greater mean.

    Returns p(component 1 | value) (..., N), 0 where `among` is False or the value not finite, and the alphas, betas and
    weights (..., 2). With fewer than two different values every value belongs to component 1. The M-step uses the
    method of moments, as SPR does. The posterior does not fall above the value where it is highest: a wide low
    component would otherwise claim the highest values of all.
    """
    x = values.detach().double()
    finite = torch.isfinite(x)
    used, among = used & finite, among & finite
    x = torch.where(finite, x, 0.5).clamp(EDGE, 1 - EDGE)
    weight = used.double()
    start = torch.tensor(START, dtype=x.dtype, device=x.device).expand(*x.shape[:-1], 2, 2)
    alphas, betas, weights = start[..., 0], start[..., 1], start.new_full(start.shape[:-1], 0.5)
    for _ in range(iterations):
        joint = _log_joint(x, alphas, betas, weights)
        alphas, betas, weights = _maximise(x, weight, (joint - joint.logsumexp(-2, keepdim=True)).exp())
    order = (alphas / (alphas + betas)).argsort(-1)
    alphas, betas, weights = (parameter.gather(-1, order) for parameter in (alphas, betas, weights))
    joint = _log_joint(x, alphas, betas, weights)
    posterior = (joint[..., 1, :] - joint.logsumexp(-2)).exp()
    peak = torch.where(among, posterior, -math.inf).argmax(-1, keepdim=True)
    posterior = torch.where(x >= x.gather(-1, peak), posterior.gather(-1, peak), posterior)
    low, high = torch.where(used, x, math.inf).amin(-1), torch.where(used, x, -math.inf).amax(-1)
    degenerate = ~(high > low)[..., None]  # also True where nothing is used: -inf > inf fails
    return torch.where(degenerate, 1.0, posterior) * among, (alphas, betas, weights)


def _log_joint(x: Tensor, alphas: Tensor, betas: Tensor, weights: Tensor) -> Tensor:
    """log p(x, component), (..., 2, N)."""
    a, b = alphas[..., None], betas[..., None]
    log_beta = torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
    x = x[..., None, :]
    return weights.clamp(min=1e-12).log()[..., None] + (a - 1) * x.log() + (b - 1) * (-x).log1p() - log_beta


def _maximise(x: Tensor, weight: Tensor, responsibility: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """alpha, beta and weight of each component, (..., 2) each, from responsibilities (..., 2, N)."""
    r = responsibility * weight[..., None, :]
    tiny = torch.finfo(x.dtype).eps
    total = r.sum(-1)
    mean = ((r * x[..., None, :]).sum(-1) / (total + tiny)).clamp(EDGE, 1 - EDGE)
    variance = (r * (x[..., None, :] - mean[..., None]).square()).sum(-1) / (total + tiny)
    concentration = (mean * (1 - mean) / (variance + tiny) - 1).clamp(*CONCENTRATION)
    return mean * concentration, (1 - mean) * concentration, total / (total.sum(-1, keepdim=True) + tiny)

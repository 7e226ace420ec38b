"""How likely each label is right, by how central its sample is among those of the same label (SPR, section 3.2)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from puridiver.spr.beta_mixture import fit_beta_mixture
from puridiver.spr.centrality import class_graph, eigenvector_centrality, random_graphs

OUTLIERS = 0.05  # share of the centralities at either end that the mixture is not fitted to

SAME = 1e-6  # centralities that differ by far less are the same


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
    low, high = (_quantile(centrality, members, share) for share in (OUTLIERS, 1 - OUTLIERS))
    inside = members & (centrality >= low) & (centrality <= high)
    scaled = (centrality - low) / (high - low + SAME)
    return fit_beta_mixture(scaled, inside, judged=members.expand_as(scaled)).high_posterior


def _quantile(values: Tensor, members: Tensor, share: float) -> Tensor:
    """The member at that share of each row's order, (..., 1); inf for a row without members."""
    ranked = torch.where(members, values, math.inf).sort(dim=-1).values
    place = ((members.sum(dim=-1, keepdim=True) - 1).clamp(min=0) * share).round().long()
    return ranked.gather(-1, place.expand(*ranked.shape[:-1], 1))

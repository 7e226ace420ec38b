"""Graphs over the samples of each class, and how central each sample is in its own."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

WEAKEST_EDGE = 1e-5  # between any two samples of a class, so that no graph falls apart
ITERATIONS = 200


def class_graph(features: Tensor, labels: Tensor) -> Tensor:
    """Cosine similarity of samples with the same label, (N, N); 0 where negative, across classes and with itself."""
    u = F.normalize(features.float(), dim=1)
    same = (labels[:, None] == labels[None, :]).fill_diagonal_(False)
    return (u @ u.T).clamp(0, 1) * same


def random_graphs(similarity: Tensor, draws: Tensor) -> Tensor:
    """Graphs in which each edge is there with its similarity for probability, (G, N, N).

    `draws` are numbers in [0, 1), (G, N, N), of which those above the diagonal are used.
    """
    upper = (draws < similarity).triu(diagonal=1)
    return (upper | upper.mT).to(similarity.dtype)


def eigenvector_centrality(adjacency: Tensor, labels: Tensor, iterations: int = ITERATIONS) -> Tensor:
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

"""Graphs and eigenvector centrality against networkx."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import torch
from torch import Tensor

from puridiver.spr.cleanness import WEAKEST_EDGE, class_graph, eigenvector_centrality, random_graphs


def features(n: int = 12, seed: int = 0) -> Tensor:
    return torch.randn(n, 5, generator=torch.Generator().manual_seed(seed))


def networkx_centrality(adjacency: Tensor) -> np.ndarray:
    graph = networkx.from_numpy_array(adjacency.numpy())
    found = networkx.eigenvector_centrality(graph, max_iter=10_000, tol=1e-12, weight="weight")
    return np.array([found[i] for i in range(len(adjacency))])


def test_edges_are_positive_cosines_within_a_class() -> None:
    x, labels = features(), torch.arange(12) % 3
    graph = class_graph(x, labels)
    for i in range(12):
        for j in range(12):
            cosine = float(x[i] @ x[j] / (x[i].norm() * x[j].norm()))
            expected = max(cosine, 0) if i != j and labels[i] == labels[j] else 0
            assert float(graph[i, j]) == pytest.approx(expected, abs=1e-6)


def test_random_graphs_have_each_edge_as_often_as_its_similarity() -> None:
    similarity = class_graph(features(), torch.zeros(12))
    graphs = random_graphs(similarity, torch.rand(4000, 12, 12, generator=torch.Generator().manual_seed(0)))
    assert set(graphs.unique().tolist()) == {0.0, 1.0}
    torch.testing.assert_close(graphs, graphs.mT)
    torch.testing.assert_close(graphs.mean(dim=0), similarity, atol=0.03, rtol=0)


@pytest.mark.parametrize("binary", [False, True], ids=["weighted", "binary"])
def test_centrality_is_that_of_networkx(binary: bool) -> None:
    labels = torch.zeros(12)
    graph = class_graph(features(), labels).double()
    if binary:
        graph = random_graphs(graph, torch.rand(1, 12, 12, generator=torch.Generator().manual_seed(1)))[0]
    found = eigenvector_centrality(graph, labels, iterations=5000)
    np.testing.assert_allclose(found.numpy(), networkx_centrality(graph + WEAKEST_EDGE), atol=1e-6)


def test_classes_and_graphs_together_give_what_each_gives_alone() -> None:
    labels = torch.tensor([0, 1, 0, 2, 1, 0, 1, 0, 1, 1, 0, 0])  # class 2 has one sample
    draws = torch.rand(3, 12, 12, generator=torch.Generator().manual_seed(2))
    graphs = random_graphs(class_graph(features(), labels), draws).double()
    found = eigenvector_centrality(graphs, labels)
    for g in range(3):
        for label in range(3):
            rows = labels == label
            alone = eigenvector_centrality(graphs[g][rows][:, rows], labels[rows])
            torch.testing.assert_close(found[g][rows], alone)
            assert float(found[g][rows].norm()) == pytest.approx(1)

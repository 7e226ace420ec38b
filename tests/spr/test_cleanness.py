"""The probability of a label: graphs and centrality against networkx, the Beta mixture against EM in plain loops."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from puridiver.spr import clean_probability
from puridiver.spr.cleanness import WEAKEST_EDGE, class_graph, eigenvector_centrality, fit_beta_mixture, random_graphs
from tests.learner_samples import seeded


def probability(x: Tensor, given: Tensor) -> Tensor:
    return clean_probability(x, given, 4, 5, seeded())


def test_strangers_are_told_from_members() -> None:
    given, right = torch.arange(120) % 2, torch.rand(120, generator=seeded()) >= 0.4
    true = torch.where(right, given, 2 + torch.randint(4, (120,), generator=seeded()))
    p = probability(torch.eye(6)[true] + 0.15 * torch.randn(120, 6, generator=seeded()), given)
    assert p.shape == (120,)
    assert float(p[right].mean()) > 0.8
    assert float(p[~right].mean()) < 0.2


def test_a_class_without_anything_to_tell_apart_is_believed() -> None:
    for n in (1, 2):
        assert probability(torch.randn(n, 6), torch.zeros(n, dtype=torch.int64)).tolist() == [1.0] * n
    # Every pair is similar with probability 1, so every graph is complete.
    assert probability(torch.ones(6, 3), torch.tensor([0, 0, 0, 1, 1, 1])).tolist() == [1.0] * 6
    p = probability(torch.zeros(6, 3), torch.tensor([0, 0, 0, 1, 1, 2]))
    assert ((p >= 0) & (p <= 1)).all()


# Graphs ------------------------------------------------------------------------------------------------------------

FEATURES = torch.randn(12, 5, generator=seeded())


def test_edges_are_positive_cosines_within_a_class() -> None:
    labels = torch.arange(12) % 3
    graph = class_graph(FEATURES, labels)
    for i in range(12):
        for j in range(12):
            cosine = float(FEATURES[i] @ FEATURES[j] / (FEATURES[i].norm() * FEATURES[j].norm()))
            expected = max(cosine, 0) if i != j and labels[i] == labels[j] else 0
            assert float(graph[i, j]) == pytest.approx(expected, abs=1e-6)


def test_random_graphs_have_each_edge_as_often_as_its_similarity() -> None:
    similarity = class_graph(FEATURES, torch.zeros(12))
    graphs = random_graphs(similarity, torch.rand(4000, 12, 12, generator=seeded()))
    assert set(graphs.unique().tolist()) == {0.0, 1.0}
    torch.testing.assert_close(graphs, graphs.mT)
    torch.testing.assert_close(graphs.mean(dim=0), similarity, atol=0.03, rtol=0)


def test_centrality_is_that_of_networkx() -> None:
    labels = torch.zeros(12)
    weighted = class_graph(FEATURES, labels).double()
    for graph in (weighted, *random_graphs(weighted, torch.rand(2, 12, 12, generator=seeded(1)))):
        known = networkx.from_numpy_array((graph + WEAKEST_EDGE).numpy())
        expected = networkx.eigenvector_centrality(known, max_iter=10_000, tol=1e-12, weight="weight")
        found = eigenvector_centrality(graph, labels, iterations=5000)
        np.testing.assert_allclose(found.numpy(), [expected[i] for i in range(12)], atol=1e-6)


def test_classes_and_graphs_together_give_what_each_gives_alone() -> None:
    labels = torch.tensor([0, 1, 0, 2, 1, 0, 1, 0, 1, 1, 0, 0])  # class 2 has one sample
    graphs = random_graphs(class_graph(FEATURES, labels), torch.rand(3, 12, 12, generator=seeded(2))).double()
    found = eigenvector_centrality(graphs, labels)
    for g in range(3):
        for label in range(3):
            rows = labels == label
            torch.testing.assert_close(found[g][rows], eigenvector_centrality(graphs[g][rows][:, rows], labels[rows]))


# The Beta mixture --------------------------------------------------------------------------------------------------


def sampled(n: int, seed: int = 0) -> np.ndarray:
    """Values of two Beta components."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 0.6, rng.beta(14, 4, n), rng.beta(4, 12, n))


def posterior(x: Tensor) -> Tensor:
    everything = torch.ones(len(x), dtype=torch.bool)
    return fit_beta_mixture(x, everything, everything)[0]


def reference_em(x: np.ndarray, iterations: int) -> list[tuple[float, float, float]]:
    """(alpha, beta, weight) of each component, one value at a time."""
    found = [(1.0, 2.0, 0.5), (2.0, 1.0, 0.5)]
    for _ in range(iterations):
        r = np.zeros((2, len(x)))
        for i, value in enumerate(x):
            joint = [w * stats.beta.pdf(value, a, b) for a, b, w in found]
            r[:, i] = [p / sum(joint) for p in joint]
        found = []
        for k in range(2):
            mean = sum(r[k] * x) / sum(r[k])
            variance = sum(r[k] * (x - mean) ** 2) / sum(r[k])
            alpha = mean * (mean * (1 - mean) / variance - 1)
            found.append((alpha, alpha * (1 - mean) / mean, sum(r[k]) / len(x)))
    return found


def test_it_is_em_with_moments() -> None:
    x, everything = sampled(150), torch.ones(150, dtype=torch.bool)
    found = torch.stack(fit_beta_mixture(torch.from_numpy(x), everything, everything, 7)[1], dim=1)
    expected = sorted(reference_em(x, 7), key=lambda c: c[0] / (c[0] + c[1]))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-8)


def test_a_low_component_that_is_wide_does_not_claim_the_highest_values() -> None:
    rng = np.random.default_rng(0)
    x = torch.from_numpy(np.concatenate([rng.uniform(0, 1, 200), rng.normal(0.7, 0.03, 100)])).clamp(0, 1)
    assert posterior(x)[x.argmax()] == posterior(x).max()


def test_rows_are_fitted_as_each_alone_and_values_that_are_no_numbers_are_left_out() -> None:
    rows = torch.stack([torch.from_numpy(sampled(60, seed=s)) for s in range(4)]).view(2, 2, 60)
    mask = torch.rand(2, 2, 60, generator=seeded()) < 0.8
    together, _ = fit_beta_mixture(rows.masked_fill(~mask, np.nan), torch.ones_like(mask), torch.ones_like(mask))
    for i in range(2):
        for j in range(2):
            torch.testing.assert_close(together[i, j][mask[i, j]], posterior(rows[i, j][mask[i, j]]))
            assert not together[i, j][~mask[i, j]].any()
    torch.testing.assert_close(fit_beta_mixture(rows, mask, mask)[0], together)


@pytest.mark.parametrize("values", [[0.3] * 5, [0.7], [0.0, 0.0], [1.0]], ids=str)
def test_with_nothing_to_tell_apart_all_are_of_the_high_component(values: list[float]) -> None:
    assert posterior(torch.tensor(values)).tolist() == [1.0] * len(values)

"""Every equation of the paper against its plain reading in `tests.reference`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from puridiver import equations
from tests import reference


@dataclass(frozen=True)
class Problem:
    """A random pool of samples as a network might see them."""

    f: Tensor  # (n, d), not negative, with some zero vectors, as after a ReLU
    w: Tensor  # (C, d)
    y: Tensor  # (n,)
    logits: Tensor  # (n, C)
    in_memory: Tensor  # (n,)

    @property
    def n_classes(self) -> int:
        return len(self.w)

    @property
    def memory(self) -> list[int]:
        return self.in_memory.nonzero().flatten().tolist()

    @property
    def u(self) -> Tensor:
        return equations.relevant_directions(self.f, self.y, self.w)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    n, d, c = draw(st.integers(1, 14)), draw(st.integers(1, 8)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    f = np.maximum(rng.normal(size=(n, d)), 0) * (rng.random((n, 1)) < 0.9)
    y, logits, memory = rng.integers(c, size=n), rng.normal(scale=3, size=(n, c)), rng.random(n) < 0.7
    w = rng.normal(size=(c, d))
    return Problem(*(torch.from_numpy(a) for a in (f, w, y, logits, memory)))


def assert_equals(actual: Tensor, expected: object) -> None:
    torch.testing.assert_close(actual, torch.as_tensor(np.asarray(expected)), rtol=1e-9, atol=1e-9)


# Definition 1 --------------------------------------------------------------------------------------------------


@given(problems())
def test_relevant_mask_is_definition_1(p: Problem) -> None:
    mask = equations.relevant_mask(p.w)
    for j in range(p.n_classes):
        assert mask[j].nonzero().flatten().tolist() == reference.relevant_elements(p.w.numpy(), j)


@given(problems())
def test_relevant_directions_keep_the_cosines_of_the_cut_vectors(p: Problem) -> None:
    f, y, w, u = p.f.numpy(), p.y.tolist(), p.w.numpy(), p.u
    for i in range(len(y)):
        for k in (k for k in range(len(y)) if y[k] == y[i]):
            assert float(u[i] @ u[k]) == pytest.approx(reference.relevant_cosine(f, y, w, i, k), abs=1e-9)


# Equation 2 ----------------------------------------------------------------------------------------------------


@given(problems())
def test_standardise_within_class_is_the_double_loop_on_the_memory(p: Problem) -> None:
    values = p.logits[:, 0]
    expected = reference.z_scores({i: float(values[i]) for i in p.memory}, p.y.tolist())
    actual = equations.standardise_within_class(values, p.y, p.in_memory, p.n_classes)
    assert actual[p.in_memory].tolist() == pytest.approx([expected[i] for i in p.memory], abs=1e-6)


@given(problems())
def test_standardise_among_one_class_is_standardise_within_it(p: Problem) -> None:
    terms = torch.stack([p.logits[:, 0], p.logits[:, -1]])
    within = equations.standardise_within_class(terms, p.y, p.in_memory, p.n_classes)
    for label in p.y[p.in_memory].unique().tolist():
        members = p.in_memory & (p.y == label)
        among = equations.standardise_among(terms, members)
        torch.testing.assert_close(among[:, members], within[:, members], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("value", [0.0, 0.1, 2.3, 1e3])
def test_constant_values_standardise_to_a_constant(value: float) -> None:
    y = torch.zeros(7, dtype=torch.int64)
    z = equations.standardise_within_class(torch.full((7,), value), y, y == 0, 1)
    assert torch.isfinite(z).all()
    assert len(z.unique()) == 1


@given(problems(), st.floats(0, 1))
def test_score_is_equation_2(p: Problem, alpha: float) -> None:
    loss = p.logits.logsumexp(dim=1) - p.logits[torch.arange(len(p.y)), p.y]
    f, y, w = p.f.numpy(), p.y.tolist(), p.w.numpy()
    similarity = torch.tensor([reference.mean_cosine(f, y, w, i, p.memory) for i in range(len(y))])
    s = equations.score(loss, similarity, alpha)
    expected = reference.scores(loss.numpy(), f, y, w, p.memory, alpha, False)
    assert s[p.in_memory].tolist() == pytest.approx([expected[i] for i in p.memory], abs=1e-9)


# Equation 3 ----------------------------------------------------------------------------------------------------


@given(st.floats(1e-6, 1e6))
def test_adaptive_alpha_is_equation_3(loss: float) -> None:
    alpha = float(equations.adaptive_alpha(torch.tensor(loss, dtype=torch.float64)))
    assert alpha == pytest.approx(reference.adaptive_alpha(loss))
    assert 0 <= alpha <= 0.5


@pytest.mark.parametrize(("loss", "alpha"), [(0.0, 0.5), (1.0, 0.5), (2.0, 0.25), (math.inf, 0.0)])
def test_adaptive_alpha_at_the_ends(loss: float, alpha: float) -> None:
    assert float(equations.adaptive_alpha(torch.tensor(loss))) == pytest.approx(alpha)


# Equations 5, 6, 7 and 8 ---------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=12))
def test_split_by_posterior_is_equations_5_and_7(rows: list[tuple[float, bool]]) -> None:
    p = torch.tensor([r[0] for r in rows], dtype=torch.float64)
    among = torch.tensor([r[1] for r in rows], dtype=torch.bool)
    chosen, others = equations.split_by_posterior(p, among)
    expected = reference.split_at_half(p.tolist(), among.nonzero().flatten().tolist())
    assert (chosen.nonzero().flatten().tolist(), others.nonzero().flatten().tolist()) == expected


def test_split_by_posterior_counts_one_half_as_clean_and_nan_as_not() -> None:
    chosen, others = equations.split_by_posterior(torch.tensor([0.5, math.nan]), torch.tensor([True, True]))
    assert chosen.tolist() == [True, False]
    assert others.tolist() == [False, True]


@given(problems())
def test_uncertainty_is_equation_6(p: Problem) -> None:
    expected = [reference.uncertainty(reference.softmax(row)) for row in p.logits.tolist()]
    assert_equals(equations.uncertainty(p.logits.softmax(dim=1)), expected)


@given(problems(), st.integers(0, 2**32 - 1))
def test_refurbish_is_equation_8(p: Problem, seed: int) -> None:
    p_u, p_m = np.random.default_rng(seed).random(len(p.y)), p.logits.softmax(dim=1)
    expected = [reference.refurbished(p_u[i], p_m[i].tolist(), int(p.y[i])) for i in range(len(p.y))]
    assert_equals(equations.refurbish(torch.from_numpy(p_u), p_m, p.y), expected)


# Equations 9, 10 and 11 ----------------------------------------------------------------------------------------


@given(problems())
def test_soft_cross_entropy_is_the_loop(p: Problem) -> None:
    targets = p.logits.flip(0).softmax(dim=1)
    pairs = zip(p.logits.tolist(), targets.tolist(), strict=True)
    assert_equals(equations.soft_cross_entropy(p.logits, targets), [reference.cross_entropy(*pair) for pair in pairs])


@given(problems(), st.integers(0, 2**32 - 1))
def test_losses_are_equations_9_10_and_11(p: Problem, seed: int) -> None:
    code = torch.from_numpy(np.random.default_rng(seed).integers(3, size=len(p.y)))  # 0, 1, 2: C, R, U
    sets = [(code == k).nonzero().flatten().tolist() for k in range(3)]
    losses, weak = p.logits[:, 0].square(), p.logits.flip(0)
    l_cls = equations.classification_loss(losses, code < 2)
    l_reg = equations.consistency_loss(equations.consistency_distances(p.logits, weak), code == 2)
    expected_cls = reference.classification_loss(losses.numpy(), sets[0], sets[1])
    expected_reg = reference.consistency_loss(p.logits.tolist(), weak.tolist(), sets[2])
    assert float(l_cls) == pytest.approx(expected_cls)
    assert float(l_reg) == pytest.approx(expected_reg, abs=1e-9)
    assert float(equations.total_loss(l_cls, l_reg, 0.7)) == pytest.approx(expected_cls + 0.7 * expected_reg)


def test_empty_sets_add_no_loss() -> None:
    losses, nobody = torch.tensor([3.0, 4.0]), torch.tensor([False, False])
    assert float(equations.classification_loss(losses, nobody)) == 0
    assert float(equations.consistency_loss(losses, nobody)) == 0


def test_consistency_loss_of_equal_views_has_a_finite_gradient() -> None:
    logits = torch.tensor([[1.0, 2.0]], requires_grad=True)
    loss = equations.consistency_loss(equations.consistency_distances(logits, logits.detach()), torch.tensor([True]))
    loss.backward()
    assert float(loss.detach()) == 0
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


@given(problems())
def test_logit_distances_are_mean_squared_differences(p: Problem) -> None:
    a, b = p.logits.tolist(), p.logits.flip(0).tolist()
    expected = [sum((x - y) ** 2 for x, y in zip(*rows, strict=True)) / len(rows[0]) for rows in zip(a, b, strict=True)]
    assert_equals(equations.logit_distances(p.logits, p.logits.flip(0)), expected)


# Equation 12 ---------------------------------------------------------------------------------------------------


@given(problems())
def test_purity_and_diversity_are_equation_12(p: Problem) -> None:
    y_given, y_true = p.logits.argmax(dim=1), p.y
    assert equations.purity(y_given, y_true) == pytest.approx(reference.purity(y_given.tolist(), y_true.tolist()))
    expected = reference.diversity(p.f.numpy(), y_true.tolist(), p.n_classes)
    assert equations.diversity(p.f, y_true, p.n_classes) == pytest.approx(expected)

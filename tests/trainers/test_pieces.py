"""The pure pieces of the trainers: SELFIE's looks, Co-teaching's share, DivideMix's formulas, PuriDivER's batches."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from torch import Tensor

from puridiver.equations import negative_entropy
from puridiver.mixture import fit_mixture
from puridiver.trainers.coteaching import small_loss_rows
from puridiver.trainers.dividemix import prior_penalty, ramp, sharpen
from puridiver.trainers.puridiver import EpochPlan, clean_full_plans, clean_full_plans_by_share, proportional_plans
from puridiver.trainers.selfie import steady_labels
from puridiver.trainers.split import Split
from tests import reference


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# SELFIE --------------------------------------------------------------------------------------------------------


def test_only_five_equal_looks_relabel() -> None:
    classes, times = torch.tensor([2, 2, 1, -1]), torch.tensor([5, 4, 9, 0])
    assert steady_labels(classes, times, torch.zeros(4, dtype=torch.int64), 5).tolist() == [2, 0, 1, 0]


# Co-teaching ---------------------------------------------------------------------------------------------------


def test_a_loss_that_is_not_a_number_is_not_small() -> None:
    assert set(small_loss_rows(torch.tensor([math.nan, 1.0, math.inf, 2.0]), 0.5).tolist()) == {1, 3}


# DivideMix -----------------------------------------------------------------------------------------------------


def random_probabilities(seed: int, n: int = 6, n_classes: int = 4) -> Tensor:
    return torch.rand(n, n_classes, generator=seeded(seed), dtype=torch.float64).mul(3).softmax(dim=1)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_sharpening_is_the_loop(temperature: float) -> None:
    p = random_probabilities(0)
    for row, sharp in zip(p.tolist(), sharpen(p, temperature).tolist(), strict=True):
        powers = [v ** (1 / temperature) for v in row]
        assert sharp == pytest.approx([v / sum(powers) for v in powers])


def test_the_unlabelled_weight_ramps_up_after_the_warm_up() -> None:
    weights = [ramp(e, 10, 16, 25.0) for e in (0, 9, 10, 18, 26, 100)]
    assert weights == pytest.approx([0, 0, 0, 12.5, 25, 25])


def test_the_prior_penalty_is_the_divergence_of_the_mean_prediction_from_uniform() -> None:
    p = random_probabilities(1)
    mean = [sum(column) / len(p) for column in zip(*p.tolist(), strict=True)]
    expected = sum(1 / 4 * math.log(1 / 4 / m) for m in mean)
    assert float(prior_penalty(p)) == pytest.approx(expected)


def test_negative_entropy_is_the_loop_and_bounded() -> None:
    logits = torch.randn(5, 4, generator=seeded(0), dtype=torch.float64)
    rows = [reference.softmax(row) for row in logits.tolist()]
    expected = sum(sum(p * math.log(p) for p in row) for row in rows) / len(rows)
    assert float(negative_entropy(logits)) == pytest.approx(expected)
    assert float(negative_entropy(torch.zeros(3, 4))) == pytest.approx(-math.log(4))
    assert float(negative_entropy(torch.tensor([[500.0, 0.0, -500.0]]))) == pytest.approx(0)


# PuriDivER's batches -------------------------------------------------------------------------------------------


def split_of(n_clean: int, n_relabel: int, n_unlabelled: int) -> Split:
    """Sets of the given sizes, scattered over the memory."""
    n = n_clean + n_relabel + n_unlabelled
    codes = torch.tensor([0] * n_clean + [1] * n_relabel + [2] * n_unlabelled)[torch.randperm(n, generator=seeded(n))]
    zeros, mixture = torch.zeros(n), fit_mixture(torch.zeros(n))
    return Split(
        torch.arange(n), codes == 0, codes == 1, codes == 2, zeros, zeros, torch.zeros(n, 2), zeros, mixture, mixture
    )


def in_each_batch(plan: EpochPlan, mask: Tensor) -> list[int]:
    return mask[plan.rows].sum(dim=1).tolist()


SIZES = [
    (48, 9, 6),
    (32, 27, 29),
    (40, 16, 8),
    (500, 0, 0),
    (30, 20, 10),
    (10, 3, 0),
    (10, 0, 3),
    (7, 5, 4),
    (2, 1, 0),
    (50, 17, 11),
]
sizes = pytest.mark.parametrize("sizes", SIZES, ids=str)


@sizes
@pytest.mark.parametrize("seed", [0, 1])
def test_proportional_batches_mirror_the_memory_within_one_sample(sizes: tuple[int, int, int], seed: int) -> None:
    split, n = split_of(*sizes), sum(sizes)
    (plan,) = proportional_plans(split.codes(), 16, seeded(seed))
    steps, size = plan.rows.shape
    assert size == min(16, n)
    assert steps == n // size
    for mask, whole in zip((split.clean, split.relabel, split.unlabelled), sizes, strict=True):
        per_batch = in_each_batch(plan, mask)
        assert max(per_batch) - min(per_batch) <= 1
        left_out = n - steps * size
        assert whole - left_out <= sum(per_batch) <= whole


@sizes
@pytest.mark.parametrize("planner", [proportional_plans, clean_full_plans])
def test_the_unlabelled_of_every_batch_lie_in_its_tail(sizes: tuple[int, int, int], planner: object) -> None:
    split = split_of(*sizes)
    (plan,) = planner(split.codes(), 16, seeded(0))  # type: ignore[operator]
    head = plan.rows[:, : plan.rows.shape[1] - plan.n_tail]
    assert not split.unlabelled[head].any()
    assert plan.n_tail == max(in_each_batch(plan, split.unlabelled))


@sizes
def test_clean_full_batches_take_sixteen_clean_and_pass_the_other_sets_once(sizes: tuple[int, int, int]) -> None:
    split = split_of(*sizes)
    (plan,) = clean_full_plans(split.codes(), 16, seeded(0))
    n_clean = min(16, sizes[0])
    assert set(in_each_batch(plan, split.clean)) == {n_clean}
    assert len(plan.rows) == sizes[0] // n_clean
    for mask, whole in ((split.relabel, sizes[1]), (split.unlabelled, sizes[2])):
        share = math.ceil(whole / len(plan.rows))
        rounded = max(2, share + share % 2 if share <= 12 else share + -share % 4)  # so that few shapes occur
        assert set(in_each_batch(plan, mask)) == {min(whole, rounded)}
        looks = Counter(plan.rows[mask[plan.rows]].tolist())
        assert set(looks) == set(mask.nonzero().flatten().tolist())
        assert not looks or max(looks.values()) - min(looks.values()) <= 1


@sizes
def test_by_share_the_other_sets_have_their_share_of_the_clean_ones_rounded_down(sizes: tuple[int, int, int]) -> None:
    split = split_of(*sizes)
    (plan,) = clean_full_plans_by_share(split.codes(), 16, seeded(0))
    assert set(in_each_batch(plan, split.clean)) == {min(16, sizes[0])}
    for mask, whole in ((split.relabel, sizes[1]), (split.unlabelled, sizes[2])):
        released = max(2, int(whole / sizes[0] * 16))
        assert set(in_each_batch(plan, mask)) == {min(whole, released)}
        looks = Counter(plan.rows[mask[plan.rows]].tolist())
        assert not looks or max(looks.values()) - min(looks.values()) <= 1

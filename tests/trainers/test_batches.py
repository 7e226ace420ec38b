"""Batches of a memory epoch: whole ones, the last one (row 24), and those of C, R and U (rows 9 and 29)."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from torch import Tensor

from puridiver.trainers.batches import EpochPlan, clean_full_plans, proportional_plans
from tests.learner_samples import as_samples, patterns, seeded, tiny_trainer
from tests.trainers.samples import CLEAN, RELABEL, UNLABELLED, split_of_sizes, watch_plans

MEMORY = as_samples(*patterns(29))  # 29 = 3 * 8 + 5


@pytest.mark.parametrize(("name", "n_epochs"), [("plain", 1), ("dividemix", 2), ("puridiver", 1), ("coteaching", 1)])
def test_every_sample_is_in_one_batch_of_an_epoch(name, n_epochs, monkeypatch):
    trainer = tiny_trainer(name, cutmix=1.0, last_batch="trained", warmup_epochs=1, baseline_warmup=1)
    calls = watch_plans(trainer, monkeypatch)
    trainer.begin_consolidation(MEMORY)
    trainer.memory_epoch(MEMORY, 0)
    assert len(calls) == 2 * n_epochs
    for (_, whole, _), (_, rest, static) in zip(calls[::2], calls[1::2], strict=True):
        assert sorted([*whole[:, :8].flatten().tolist(), *rest[:, :5].flatten().tolist()]) == list(range(29))
        assert 5 in static
        assert rest.shape == (1, 5 + 5 + 4)
        assert sorted(rest[0, 5:10].tolist()) == list(range(5))  # CutMix takes partners from this batch


# Batches of C, R and U -------------------------------------------------------------------------------------------

SIZES = [(20, 10, 11), (33, 3, 4), (17, 0, 8), (10, 14, 0), (25, 30, 30), (7, 1, 1), (23, 0, 0), (16, 9, 9)]
sizes = pytest.mark.parametrize("sizes", SIZES, ids=str)


def codes_of(sizes: tuple[int, ...]) -> Tensor:
    return split_of_sizes(*sizes).codes()


def assert_sorted_by_set(plan: EpochPlan, codes: Tensor) -> None:
    found = codes[plan.rows]
    assert (found.diff(dim=1) >= 0).all()
    assert plan.n_clean == int((found == CLEAN).sum(dim=1).min())
    assert plan.n_tail == int((found == UNLABELLED).sum(dim=1).max())


@sizes
def test_proportional_batches_mirror_the_memory_within_one_sample(sizes):
    codes, n = codes_of(sizes), sum(sizes)
    plans = proportional_plans(codes, 8, seeded(), True)
    (whole,) = proportional_plans(codes, 8, seeded())
    assert torch.equal(plans[0].rows, whole.rows)
    assert whole.rows.shape == (n // 8, 8)
    for code in (CLEAN, RELABEL, UNLABELLED):
        per_batch = (codes[whole.rows] == code).sum(dim=1)
        assert per_batch.max() - per_batch.min() <= 1
    assert [tuple(plan.rows.shape) for plan in plans[1:]] == ([(1, n % 8)] if n % 8 > 1 else [])
    for plan in plans:
        assert_sorted_by_set(plan, codes)
    taken = Counter(torch.cat([plan.rows.flatten() for plan in plans]).tolist())
    assert set(taken.values()) == {1}
    assert len(taken) == (n if n % 8 != 1 else n - 1)


@sizes
@pytest.mark.parametrize("with_rest", [False, True])
def test_clean_full_batches_pass_every_set_once(sizes, with_rest):
    codes, n_clean = codes_of(sizes), sizes[0]
    plans = clean_full_plans(codes, 8, seeded(), with_rest)
    size = min(8, n_clean)
    expected = [size, n_clean % size] if with_rest and n_clean % size else [size]
    assert [plan.n_clean for plan in plans] == expected
    assert [len(plan.rows) for plan in plans] == [n_clean // size, 1][: len(expected)]
    steps = sum(len(plan.rows) for plan in plans)
    for plan in plans:
        assert_sorted_by_set(plan, codes)
        assert all(len(set(batch)) == len(batch) for batch in plan.rows.tolist())
        for code in (RELABEL, UNLABELLED):
            share = math.ceil(sizes[code] / steps)
            rounded = max(2, share + share % 2 if share <= 12 else share + -share % 4)  # so that few shapes occur
            assert ((codes[plan.rows] == code).sum(dim=1) == min(sizes[code], rounded)).all()
    taken = Counter(torch.cat([plan.rows.flatten() for plan in plans]).tolist())
    for code in (RELABEL, UNLABELLED):
        times = [taken[row] for row in (codes == code).nonzero().flatten().tolist()]
        assert not times or (min(times) >= 1 and max(times) - min(times) <= 1)


@sizes
def test_by_share_r_and_u_have_their_share_of_c_rounded_down(sizes):
    codes = codes_of(sizes)
    (plan,) = clean_full_plans(codes, 8, seeded(), by_share=True)
    assert plan.n_clean == min(8, sizes[0])
    for code in (RELABEL, UNLABELLED):
        released = max(2, int(sizes[code] / sizes[0] * 8))
        assert ((codes[plan.rows] == code).sum(dim=1) == min(sizes[code], released)).all()

"""Row 24 where the memory is divided: the last batch of an epoch on C, R and U."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from torch import Tensor

from puridiver.trainers.puridiver import EpochPlan, PassShape, clean_full_plans, proportional_plans
from tests.learner_samples import as_samples, patterns, tiny_trainer
from tests.trainers.test_last_batch import watch
from tests.trainers.test_training_puridiver import CLEAN, RELABEL, UNLABELLED, split_of_sizes

IMAGES, LABELS = patterns(29)
PLANNERS = {"proportional": proportional_plans, "clean_full": clean_full_plans}
SIZES = [(20, 10, 11), (33, 3, 4), (17, 0, 8), (10, 14, 0), (25, 30, 30), (7, 1, 1), (50, 2, 1), (23, 0, 0), (16, 9, 9)]
sizes = pytest.mark.parametrize("sizes", SIZES, ids=str)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def codes_of(sizes: tuple[int, int, int]) -> Tensor:
    return split_of_sizes(*sizes).codes()




def assert_sorted_by_set(plan: EpochPlan, codes: Tensor) -> None:
    found = codes[plan.rows]
    assert (found.diff(dim=1) >= 0).all()
    assert plan.n_clean == int((found == CLEAN).sum(dim=1).min())
    assert plan.n_tail == int((found == UNLABELLED).sum(dim=1).max())


@sizes
def test_a_proportional_rest_has_the_rows_that_were_not_kept(sizes):
    codes, n = codes_of(sizes), sum(sizes)
    plans = proportional_plans(codes, 8, seeded(), True)
    (whole,) = proportional_plans(codes, 8, seeded())
    assert torch.equal(plans[0].rows, whole.rows)
    assert [tuple(plan.rows.shape) for plan in plans[1:]] == ([(1, n % 8)] if n % 8 > 1 else [])
    for plan in plans:
        assert_sorted_by_set(plan, codes)
    taken = Counter(torch.cat([plan.rows.flatten() for plan in plans]).tolist())
    assert set(taken.values()) == {1}
    assert len(taken) == (n if n % 8 != 1 else n - 1)


@sizes
def test_a_clean_full_rest_takes_the_last_clean_rows_and_goes_on_with_r_and_u(sizes):
    codes, n_clean = codes_of(sizes), sizes[0]
    plans = clean_full_plans(codes, 8, seeded(), True)
    size = min(8, n_clean)
    expected = [size] if n_clean % size == 0 else [size, n_clean % size]
    assert [plan.n_clean for plan in plans] == expected
    assert [len(plan.rows) for plan in plans] == [n_clean // size, 1][: len(expected)]
    steps = sum(len(plan.rows) for plan in plans)
    taken = Counter(torch.cat([plan.rows.flatten() for plan in plans]).tolist())
    for plan in plans:
        assert_sorted_by_set(plan, codes)
        assert all(len(set(batch)) == len(batch) for batch in plan.rows.tolist())
        for code in (RELABEL, UNLABELLED):
            per_step = math.ceil(sizes[code] / steps)  # the step of the rest counts
            rounded = min(sizes[code], max(2, per_step + per_step % 2))
            assert ((codes[plan.rows] == code).sum(dim=1) == rounded).all()
    for code in (CLEAN, RELABEL, UNLABELLED):
        looks = [taken[row] for row in (codes == code).nonzero().flatten().tolist()]
        assert not looks or (min(looks) >= 1 and max(looks) - min(looks) <= (code != CLEAN))


@pytest.mark.parametrize(
    ("sizes", "rest"), [((17, 0, 0), []), ((17, 1, 0), [2]), ((17, 0, 1), [2]), ((17, 6, 6), [5]), ((18, 0, 0), [2])]
)
def test_a_single_clean_row_is_trained_on_if_others_join_it(sizes, rest):
    _, *found = clean_full_plans(codes_of(sizes), 8, seeded(), True)
    assert [plan.rows.shape[1] for plan in found] == rest


def three_sets(monkeypatch, sizes: tuple[int, int, int], seed: int = 0, **options):
    """A trainer whose memory is divided into sets of these sizes, and that memory."""
    trainer, split = tiny_trainer("puridiver", seed=seed, last_batch="trained", **options), split_of_sizes(*sizes)
    monkeypatch.setattr(trainer, "_divide", lambda *_: split)
    n = sum(sizes)
    return trainer, as_samples(IMAGES[:n], LABELS[:n])


@pytest.mark.parametrize("cutmix_sets", ["labelled", "clean"])
@pytest.mark.parametrize("set_batches", PLANNERS)
def test_an_epoch_of_three_sets_ends_with_the_rest_uncaptured(set_batches, cutmix_sets, monkeypatch):
    trainer, memory = three_sets(monkeypatch, (13, 9, 7), set_batches=set_batches, cutmix_sets=cutmix_sets, cutmix=0.5)
    expected = torch.Generator()
    expected.set_state(trainer.generator.get_state())
    watched = watch(trainer, monkeypatch, "_run_sets")
    trainer.memory_epoch(memory, 0)
    plans = PLANNERS[set_batches](codes_of((13, 9, 7)), 8, expected, True)
    assert [how for how, _, _ in watched.calls] == ["often", "once"]
    for plan, (_, steps, (shape, _)) in zip(plans, watched.calls, strict=True):
        n = plan.rows.shape[1]
        mixed = n - plan.n_tail if cutmix_sets == "labelled" else plan.n_clean
        assert torch.equal(steps[:, :n], plan.rows)
        assert shape == PassShape(n, plan.n_tail, mixed, 0)
        assert steps.shape[1] == n + mixed + 4
        assert (steps[:, n : n + mixed].sort(dim=1).values == torch.arange(mixed)).all()

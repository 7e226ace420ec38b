"""A learner whose sampler lets arrivals wait: when they are chosen from, saved, and what a consolidation sees."""

from __future__ import annotations

import numpy as np
import pytest

from puridiver import Learner
from tests.learner_samples import differing, patterns, tensors_of, tiny_learner

IMAGES, LABELS = patterns(40)


def waiting(**settings) -> Learner:
    """Six places for the memory, six to wait in; all that waited gets its chance."""
    return tiny_learner(sampler="spr", trainer="plain", **{"spr_filter": False, **settings})


def arrivals(learner: Learner) -> tuple[list[int], list[int]]:
    return learner.memory.samples.arrivals.tolist(), learner.delayed.samples.arrivals.tolist()


def test_arrivals_wait_until_the_delay_buffer_is_full() -> None:
    learner = waiting()
    assert (learner.memory.capacity, learner.delayed.capacity, learner.capacity) == (6, 6, 12)
    learner.observe(IMAGES[:4], LABELS[:4])
    assert arrivals(learner) == ([], [0, 1, 2, 3])
    learner.observe(IMAGES[4:8], LABELS[4:8])
    assert arrivals(learner) == ([0, 1, 2, 3, 4, 5], [6, 7])


@pytest.mark.parametrize("size", [1, 3, 5, 16, 40])
def test_the_size_of_stream_batches_does_not_matter(size: int) -> None:
    learner = waiting()
    seen: list[tuple[list[int], int]] = []
    choose = learner.sampler.choose

    def watched(pool, n_old, capacity, moment):
        seen.append((pool.arrivals[n_old:].tolist(), moment.seen_before))
        return choose(pool, n_old, capacity, moment)

    learner.sampler.choose = watched  # type: ignore[method-assign]
    for start in range(0, 40, size):
        learner.observe(IMAGES[start : start + size], LABELS[start : start + size])
    assert seen == [(list(range(first, first + 6)), first) for first in range(0, 36, 6)]
    assert arrivals(learner)[1] == [36, 37, 38, 39]


def test_a_consolidation_trains_on_the_memory_and_lets_the_rest_wait() -> None:
    learner = waiting()
    learner.observe(IMAGES[:8], LABELS[:8])
    learner.consolidate()
    assert arrivals(learner)[1] == [6, 7]


def test_where_all_that_came_is_waiting_a_consolidation_chooses_from_it() -> None:
    learner = waiting()
    learner.observe(IMAGES[:4], LABELS[:4])
    learner.consolidate()
    assert arrivals(learner) == ([0, 1, 2, 3], [])
    with pytest.raises(ValueError, match="memory is empty"):
        waiting().consolidate()


def test_what_waits_is_saved(tmp_path) -> None:
    learner = waiting(spr_filter=True)
    learner.observe(IMAGES[:9], LABELS[:9])
    assert len(learner.delayed) == 3
    loaded = Learner.load(learner.save(tmp_path), device="cpu")
    assert loaded.capacity == 12
    assert arrivals(loaded) == arrivals(learner)
    for each in (learner, loaded):
        each.observe(IMAGES[9:30], LABELS[9:30])
    assert differing(tensors_of(learner), tensors_of(loaded)) == []


def test_going_back_to_a_state_empties_what_waited_since() -> None:
    learner = waiting()
    before = learner.state()
    learner.observe(IMAGES[:4], LABELS[:4])
    learner.load_state(*before)
    assert arrivals(learner) == ([], [])


def test_spr_learns_from_a_stream_with_wrong_labels() -> None:
    images, true = patterns(120, seed=3)
    rng = np.random.default_rng(0)
    given = np.where(rng.random(120) < 0.3, (true + rng.integers(1, 3, 120)) % 3, true)
    settings = {"spr_budget": 0.005, "spr_graphs": 5, "epochs": 30}
    learner = tiny_learner(sampler="spr", trainer="spr", memory=80, **settings)
    learner.observe(images, given)
    learner.consolidate()
    kept = learner.memory.samples
    purity = (true[kept.arrivals.numpy()] == kept.labels.numpy()).mean()
    assert purity > (true == given).mean() + 0.1
    assert (learner.predict(IMAGES) == LABELS).mean() > 0.8

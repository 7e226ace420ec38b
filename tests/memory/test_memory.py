"""The memory: what it holds, arrivals that wait in a delay buffer, and its state."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from puridiver import Learner
from puridiver.memory import SAMPLERS
from puridiver.memory.delayed import DelayedMemory
from puridiver.options import Options
from puridiver.runtime.device import Runtime
from tests.learner_samples import differing, feed, patterns, tensors_of, tiny_learner
from tests.memory.fakes import SIDE, empty_memory, stream

IMAGES, LABELS = patterns(40)


def waiting(**settings) -> Learner:
    """Six places for the memory, six to wait in; all that waited gets its chance."""
    return tiny_learner(sampler="spr", trainer="plain", **{"spr_filter": False, **settings})


def arrivals(learner: Learner) -> tuple[list[int], list[int]]:
    assert isinstance(learner.memory, DelayedMemory)
    return learner.memory.samples.arrivals.tolist(), learner.memory.waiting.arrivals.tolist()


def test_taking_and_joining_keep_each_sample_whole() -> None:
    samples = replace(stream(6, 3), vectors=torch.rand(6, 2))
    taken = samples.take(torch.tensor([4, 1])).joined(samples.take(slice(2, 3)))
    for name, tensor in vars(taken).items():
        assert torch.equal(tensor, vars(samples)[name][[4, 1, 2]])
    assert [len(part) for part in samples.split(4)] == [4, 2]


def test_a_memory_refuses_a_state_that_is_too_large() -> None:
    memory = empty_memory(SAMPLERS["rsv"](Options()), 5)
    for n in (5, 6):
        memory.samples = stream(n, 2)
        state = memory.state()
        if n == 5:
            memory.load_state(state, 2, 6)
    with pytest.raises(ValueError, match="at most 5 samples, but got 6"):
        memory.load_state(state, 2, 6)


@pytest.mark.parametrize(("places", "capacity"), [(1, 1), (2, 1), (3, 1), (200, 100)])
def test_half_of_the_places_are_the_delay_buffer_of_spr(places: int, capacity: int) -> None:
    sampler = SAMPLERS["spr"](Options())
    memory = sampler.memory_class(sampler, places, (SIDE, SIDE, 1), Runtime(torch.device("cpu")))
    assert isinstance(memory, DelayedMemory)
    assert (memory.capacity, memory.delay) == (capacity, max(1, places - capacity))


@pytest.mark.parametrize("size", [5, 40])
def test_arrivals_wait_until_the_delay_buffer_is_full(size: int) -> None:
    learner = waiting()
    seen: list[tuple[list[int], int]] = []
    choose = learner.sampler.choose

    def watched(pool, n_old, capacity, moment):
        seen.append((pool.arrivals[n_old:].tolist(), moment.seen_before))
        return choose(pool, n_old, capacity, moment)

    learner.sampler.choose = watched  # type: ignore[method-assign]
    feed(learner, IMAGES, LABELS, size)
    assert seen == [(list(range(first, first + 6)), first) for first in range(0, 36, 6)]
    assert arrivals(learner)[1] == [36, 37, 38, 39]


def test_a_consolidation_trains_on_what_waits_only_before_the_first_choice() -> None:
    learner = waiting()
    with pytest.raises(ValueError, match="memory is empty"):
        learner.consolidate()
    learner.observe(IMAGES[:4], LABELS[:4])
    assert learner.memory.trained_on.arrivals.tolist() == [0, 1, 2, 3]
    learner.consolidate()
    assert arrivals(learner) == ([], [0, 1, 2, 3])
    learner.observe(IMAGES[4:8], LABELS[4:8])
    assert learner.memory.trained_on is learner.memory.samples


def test_what_waits_is_saved_and_corrected(tmp_path) -> None:
    learner = waiting(spr_filter=True)
    before = learner.state()
    learner.observe(IMAGES[:9], LABELS[:9], ids=list("abcdefghi"))
    assert learner.correct({"h": 2}, by_id=True).applied == ["h"]
    assert learner.memory.held().labels.tolist()[-2] == 2
    loaded = Learner.load(learner.save(tmp_path), device="cpu")
    assert loaded.capacity == 12
    assert arrivals(loaded) == arrivals(learner)
    assert loaded.held_ids() == learner.held_ids() != {}
    for each in (learner, loaded):
        each.observe(IMAGES[9:30], LABELS[9:30])
    assert differing(tensors_of(learner), tensors_of(loaded)) == []
    learner.load_state(*before)
    assert arrivals(learner) == ([], [])


def test_a_patient_memory_judges_arrivals_together_and_never_holds_more_than_its_places(tmp_path) -> None:
    learner, chosen = tiny_learner(delay=3), list[list[int]]()  # nine places of twelve, three to wait in
    choose = learner.sampler.choose

    def watched(pool, n_old, capacity, moment):
        chosen.append(pool.arrivals[n_old:].tolist())
        assert moment.seen_before == chosen[-1][0]
        assert sum(moment.seen_of.values()) == chosen[-1][0]
        return choose(pool, n_old, capacity, moment)

    learner.sampler.choose = watched  # type: ignore[method-assign]
    for start in range(0, 20, 2):
        learner.observe(IMAGES[start : start + 2], LABELS[start : start + 2])
        assert len(learner.memory.held()) <= 12
    assert chosen == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9, 10, 11], [12, 13, 14, 15], [16, 17, 18, 19]]
    learner.observe(IMAGES[20:22], LABELS[20:22])
    assert learner.memory.trained_on.arrivals.tolist()[-2:] == [20, 21]
    loaded = Learner.load(learner.save(tmp_path), device="cpu")
    for each in (learner, loaded):
        each.observe(IMAGES[22:30], LABELS[22:30])
    assert differing(tensors_of(learner), tensors_of(loaded)) == []
    learner.sampler.choose = choose  # type: ignore[method-assign]
    learner.observe(IMAGES[30:32], LABELS[30:32])
    assert (learner.memory.waiting.notes > 0).tolist() == [True, True]  # measured when they came
    for places, delay in ((4, 1), (3, 0)):
        learner.resize(places)
        assert (learner.memory.capacity, len(learner.memory.samples)) == (places - delay, places - delay)
        assert len(learner.memory.waiting) == 0

"""The memory holds what it is given, in one piece, and no more than fits."""

from __future__ import annotations

import pytest
import torch

from puridiver.memory.samples import joined
from tests.memory.fakes import empty_memory, stream


def test_a_new_memory_is_empty_and_shaped_for_its_images() -> None:
    memory = empty_memory(3)
    assert len(memory) == 0
    assert not memory.full
    assert memory.samples.images.shape == (0, 1, 8, 8)
    assert memory.samples.images.dtype == torch.uint8


def test_a_memory_is_full_at_its_capacity() -> None:
    memory = empty_memory(3)
    memory.replace(stream(2, 2))
    assert not memory.full
    memory.replace(stream(3, 2))
    assert memory.full


def test_too_many_samples_are_refused_and_change_nothing() -> None:
    memory = empty_memory(3)
    memory.replace(stream(2, 2))
    with pytest.raises(ValueError, match=r"at most 3 .* got 4"):
        memory.replace(stream(4, 2))
    assert len(memory) == 2


def test_a_memory_survives_its_state() -> None:
    old, new = empty_memory(5), empty_memory(5)
    old.replace(stream(4, 2))
    new.load_state(old.state())
    for name, value in old.state().items():
        assert torch.equal(new.state()[name], value)


def test_a_state_that_does_not_fit_is_refused() -> None:
    large = empty_memory(5)
    large.replace(stream(5, 2))
    with pytest.raises(ValueError, match="at most 4"):
        empty_memory(4).load_state(large.state())


def test_taking_rows_takes_all_of_each_sample() -> None:
    samples = stream(6, 3)
    taken = samples.take(torch.tensor([4, 0, 4]))
    assert len(taken) == 3
    assert taken.arrivals.tolist() == [4, 0, 4]
    assert torch.equal(taken.labels, samples.labels[[4, 0, 4]])
    assert torch.equal(taken.images, samples.images[[4, 0, 4]])


def test_joining_puts_the_second_behind_the_first() -> None:
    everything = stream(7, 3)
    first, second = everything.take(torch.arange(3)), everything.take(torch.arange(3, 7))
    both = joined(first, second)
    assert both.arrivals.tolist() == list(range(7))
    assert torch.equal(both.images, everything.images)
    assert torch.equal(both.labels, everything.labels)
    assert torch.equal(both.notes, everything.notes)

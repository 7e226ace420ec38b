"""What every sampler promises, whoever it is: each one in the registry is tested here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from puridiver.memory import SAMPLERS, Memory, Sampler
from puridiver.memory.samples import Samples
from puridiver.recipes import RECIPES, replaced
from tests.memory.fakes import FixedNetwork, empty_memory, moment, pass_batch, stream

every_sampler = pytest.mark.parametrize("name", SAMPLERS)
KEEPING = [name for name, sampler in SAMPLERS.items() if not sampler.filters]
every_recipe = pytest.mark.parametrize("recipe_name", RECIPES)

# (batch size, capacity, classes)
SIZES = {
    "usual": (4, 10, 3),
    "batch_of_one": (1, 5, 3),
    "memory_of_one": (4, 1, 3),
    "batch_larger_than_memory": (16, 5, 3),
    "one_class": (4, 6, 1),
    "more_classes_than_places": (4, 3, 8),
}
every_size = pytest.mark.parametrize("size", SIZES)


def make(name: str, recipe_name: str = "paper") -> Sampler:
    return SAMPLERS[name](replaced(RECIPES[recipe_name], {"spr_budget": 0.0003}))


def run(
    sampler: Sampler, size: str, n: int = 32, device: str = "cpu", seed: int = 0
) -> Iterator[tuple[Tensor, Memory, int, Samples]]:
    """Pass a stream; after each batch gives (rows chosen, memory, length of the pool, everything so far)."""
    batch_size, capacity, n_classes = SIZES[size]
    everything = stream(n, n_classes, seed, device)
    memory, network = empty_memory(capacity, device), FixedNetwork(n_classes, seed, device)
    generator = torch.Generator().manual_seed(seed)
    for start in range(0, n, batch_size):
        batch = everything.take(torch.arange(start, min(start + batch_size, n)))
        pool_length = len(memory) + len(batch)
        now = moment(network, n_classes, seen_before=start, generator=generator)
        rows = pass_batch(sampler, memory, batch, now)
        yield rows, memory, pool_length, everything.take(torch.arange(start + len(batch)))


def check_run(sampler: Sampler, size: str, device: str = "cpu") -> None:
    for rows, memory, pool_length, everything in run(sampler, size, device=device):
        assert rows.dtype == torch.int64
        assert rows.ndim == 1
        assert len(rows) <= memory.capacity
        assert len(set(rows.tolist())) == len(rows)
        assert all(0 <= row < pool_length for row in rows.tolist())
        arrivals = memory.samples.arrivals
        assert torch.equal(memory.samples.images, everything.images[arrivals])
        assert torch.equal(memory.samples.labels, everything.labels[arrivals])


@every_sampler
@every_recipe
@every_size
def test_choices_are_valid_and_samples_stay_whole(name: str, recipe_name: str, size: str) -> None:
    check_run(make(name, recipe_name), size)


@pytest.mark.gpu
@every_sampler
@every_size
def test_choices_are_valid_and_samples_stay_whole_on_the_gpu(name: str, size: str) -> None:
    check_run(make(name), size, device="cuda")


@every_sampler
@every_recipe
@every_size
def test_notes_stay_with_their_samples(name: str, recipe_name: str, size: str) -> None:
    sampler = make(name, recipe_name)
    _, _, n_classes = SIZES[size]
    first_notes: dict[int, float] = {}
    for _, memory, _, everything in run(sampler, size):
        fresh = sampler.note_arrivals(everything, moment(FixedNetwork(n_classes), n_classes))
        first_notes |= {i: float(fresh[i]) for i in range(len(everything)) if i not in first_notes}
        kept = memory.samples
        for arrival, note in zip(kept.arrivals.tolist(), kept.notes.tolist(), strict=True):
            assert note == pytest.approx(first_notes[arrival], rel=1e-5)


# GBS keeps places free by its rule.
@pytest.mark.parametrize("name", [name for name in KEEPING if name != "gbs"])
@every_recipe
@every_size
def test_nothing_is_dropped_before_the_memory_is_full(name: str, recipe_name: str, size: str) -> None:
    for _, memory, _, everything in run(make(name, recipe_name), size):
        assert len(memory) == min(len(everything), memory.capacity)


@every_sampler
@every_recipe
def test_a_full_memory_stays_full(name: str, recipe_name: str) -> None:
    lengths = [len(memory) for _, memory, _, _ in run(make(name, recipe_name), "usual", n=60)]
    assert lengths == sorted(lengths)
    assert lengths[-1] == SIZES["usual"][1]


@every_sampler
@every_recipe
def test_the_same_generator_state_gives_the_same_choices(name: str, recipe_name: str) -> None:
    first = [rows.tolist() for rows, *_ in run(make(name, recipe_name), "usual")]
    second = [rows.tolist() for rows, *_ in run(make(name, recipe_name), "usual")]
    assert first == second


@every_sampler
@every_recipe
def test_the_global_generator_is_neither_read_nor_moved(name: str, recipe_name: str) -> None:
    before = torch.get_rng_state()
    first = [rows.tolist() for rows, *_ in run(make(name, recipe_name), "usual")]
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(7)
    assert first == [rows.tolist() for rows, *_ in run(make(name, recipe_name), "usual")]
    torch.set_rng_state(before)


@every_sampler
@every_recipe
def test_choosing_leaves_the_pool_as_it_was(name: str, recipe_name: str) -> None:
    pool = stream(20, 3)
    copies = [t.clone() for t in (pool.images, pool.labels, pool.arrivals, pool.notes)]
    make(name, recipe_name).choose(pool, 8, 8, moment(FixedNetwork(3), 3, seen_before=30))
    for now, before in zip((pool.images, pool.labels, pool.arrivals, pool.notes), copies, strict=True):
        assert torch.equal(now, before)


@pytest.mark.parametrize("name", KEEPING)
def test_a_stream_shorter_than_the_memory_is_kept_in_order_of_arrival(name: str) -> None:
    pool = stream(5, 2)
    rows = make(name).choose(pool, 2, 50, moment(FixedNetwork(2), 2, seen_before=2))
    assert rows.tolist() == [0, 1, 2, 3, 4]


@every_sampler
def test_samplers_are_registered_under_their_own_name_and_describe_themselves(name: str) -> None:
    sampler = SAMPLERS[name]
    assert sampler.name == name
    assert sampler.title
    assert sampler.summary


@every_sampler
def test_only_samplers_that_need_it_look_through_the_network(name: str) -> None:
    sampler, network = make(name), FixedNetwork(3)
    memory, everything = empty_memory(6), stream(24, 3)
    generator = torch.Generator().manual_seed(0)
    for start in range(0, 24, 4):
        batch = everything.take(torch.arange(start, start + 4))
        pass_batch(sampler, memory, batch, moment(network, 3, start, generator))
    assert bool(network.images_seen) == (sampler.name in ("rm", "puridiver", "ntd"))

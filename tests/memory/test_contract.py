"""What every sampler promises: each one that the folder holds is tested here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from puridiver.memory import SAMPLERS, Memory, Sampler, Samples
from puridiver.recipes import recipe
from tests.memory.fakes import FixedNetwork, empty_memory, moment, pass_batch, stream

every_sampler = pytest.mark.parametrize("name", SAMPLERS)
# (batch size, capacity, classes)
SIZES = {
    "usual": (4, 10, 3),
    "batch_of_one": (1, 5, 3),
    "memory_of_one": (4, 1, 3),
    "batch_larger_than_memory": (16, 5, 3),
    "one_class": (4, 6, 1),
    "more_classes_than_places": (4, 3, 8),
}


def make(name: str, recipe_name: str = "paper") -> Sampler:
    return SAMPLERS[name](recipe(recipe_name, spr_budget=0.0003))


def run(sampler: Sampler, size: str, device: str = "cpu") -> Iterator[tuple[Memory, Samples]]:
    """Pass a stream; after each batch gives the memory, which checks every choice, and everything so far."""
    batch_size, capacity, n_classes = SIZES[size]
    everything = stream(32, n_classes, 0, device)
    memory, network = empty_memory(sampler, capacity, device), FixedNetwork(n_classes, 0, device)
    generator, seen = torch.Generator().manual_seed(0), 0
    for batch in everything.split(batch_size):
        pass_batch(memory, batch, moment(network, n_classes, seen, generator))
        seen += len(batch)
        yield memory, everything.take(slice(seen))


@every_sampler
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_choices_are_valid_and_samples_stay_whole(name: str, size: str, device: str) -> None:
    for memory, everything in run(make(name, "puridiver"), size, device):
        kept = memory.samples
        assert torch.equal(kept.images, everything.images[kept.arrivals])
        assert torch.equal(kept.labels, everything.labels[kept.arrivals])
        if name not in ("spr", "gbs"):  # these may keep places free by their rules
            assert len(memory) == min(len(everything), memory.capacity)


@every_sampler
def test_the_generator_of_the_moment_alone_decides(name: str) -> None:
    before = torch.get_rng_state()
    first = [memory.samples.arrivals.tolist() for memory, _ in run(make(name), "usual")]
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(7)
    assert first == [memory.samples.arrivals.tolist() for memory, _ in run(make(name), "usual")]
    torch.set_rng_state(before)

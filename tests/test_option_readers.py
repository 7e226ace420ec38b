"""Which options a method says it reads are those that it does read: watched while a small learner learns."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import puridiver
from puridiver.memory import SAMPLERS
from puridiver.plugins import is_own
from puridiver.recipes import Options

NAMES = frozenset(option.name for option in dataclasses.fields(Options))
BOOKKEEPING = (
    "puridiver.options",
    "puridiver.recipes",
    "dataclasses",
    "copy",
)  # look at every option, whatever the method
# Worked out for every method, and used with few: views that only PuriDivER's trainer takes, a loss and a switch that
# only some samplers ask for.
OF_A_RUN = {"consolidations"}  # a learner trains on its memory when it is told to
PREPARED_FOR_ALL = {"weak", "alpha_loss", "online_batchnorm"}


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    found: set[str] = set()

    def watched(self: Options, name: str) -> object:
        if name in NAMES and sys._getframe(1).f_globals.get("__name__") not in BOOKKEEPING:
            found.add(name)
        return object.__getattribute__(self, name)

    monkeypatch.setattr(Options, "__getattribute__", watched, raising=False)
    return found


def options_seen(seen: set[str], sampler: str, trainer: str) -> set[str]:
    seen.clear()
    random = np.random.default_rng(0)
    images, labels = random.integers(0, 256, (96, 12, 12, 3), dtype=np.uint8), random.integers(0, 4, 96)
    learner = puridiver.Learner(
        classes=4, image_shape=(12, 12, 3), memory=24, sampler=sampler, trainer=trainer, network="small", device="cpu",
        recipe="official", epochs=13, spr_expert_epochs=2, spr_base_epochs=2, arrival_weight=0.5,
    )  # fmt: skip
    for batch in range(0, 96, 16):
        learner.observe(images[batch : batch + 16], labels[batch : batch + 16])
    learner.consolidate()
    return set(seen)


OWN = [
    *(("sampler", name) for name, member in SAMPLERS.items() if is_own(member)),
    *(("trainer", name) for name, member in puridiver.trainers.TRAINERS.items() if is_own(member)),
]


@pytest.mark.parametrize(("family", "name"), OWN)
def test_a_method_names_the_options_that_it_reads_and_no_others(seen: set[str], family: str, name: str) -> None:
    of_all = options_seen(seen, "rsv", "plain")
    chosen = {"sampler": "rsv", "trainer": "plain", family: name}
    member = (SAMPLERS if family == "sampler" else puridiver.trainers.TRAINERS)[name]
    assert options_seen(seen, **chosen) - of_all == set(member.reads) - PREPARED_FOR_ALL
    assert set(member.reads) & of_all <= PREPARED_FOR_ALL


def test_every_option_is_one_of_every_method_or_some_method_names_it(seen: set[str]) -> None:
    of_all = options_seen(seen, "rsv", "plain")
    named = {name for family in (SAMPLERS, puridiver.trainers.TRAINERS) for m in family.values() for name in m.reads}
    assert of_all | named | OF_A_RUN == NAMES


@pytest.mark.parametrize("name", [name for family, name in OWN if family == "trainer"])
def test_a_trainer_says_whether_it_looks_at_the_noise_that_it_is_told(name, monkeypatch) -> None:
    random, looks = np.random.default_rng(0), []
    learner = puridiver.Learner(
        classes=2, image_shape=(12, 12, 3), memory=24, sampler="rsv", trainer=name, network="small", device="cpu",
        recipe="official", epochs=3, hint=puridiver.NoiseHint("asym", 0.2), spr_expert_epochs=1, spr_base_epochs=1,
    )  # fmt: skip

    def watched(self: puridiver.NoiseHint, field: str) -> object:
        looks.append(field)
        return object.__getattribute__(self, field)

    monkeypatch.setattr(puridiver.NoiseHint, "__getattribute__", watched, raising=False)
    learner.observe(random.integers(0, 256, (32, 12, 12, 3), dtype=np.uint8), random.integers(0, 2, 32))
    learner.consolidate()
    assert bool({"kind", "rate"} & set(looks)) == puridiver.trainers.TRAINERS[name].reads_hint

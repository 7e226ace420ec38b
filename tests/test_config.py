"""A config that cannot be meant is refused where it is made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from puridiver.data import DataSource, ImageSet
from puridiver.runs.config import LEAST, RunConfig, resolve_memory


@pytest.mark.parametrize("name", sorted(LEAST))
@pytest.mark.parametrize("value", ["3", 2.5, True, [1]])
def test_numbers_are_whole_numbers(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} should be a whole number, but got "):
        RunConfig(**{name: value})


@pytest.mark.parametrize("name", sorted(LEAST))
def test_numbers_have_a_least_value(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} should be at least {LEAST[name]}, but got {LEAST[name] - 1}"):
        RunConfig(**{name: LEAST[name] - 1})
    assert getattr(RunConfig(**{name: np.int64(LEAST[name])}), name) == LEAST[name]


def test_only_what_has_no_value_by_default_may_be_none() -> None:
    assert RunConfig(tasks=None).tasks is None
    with pytest.raises(ValueError, match="holdout should be a whole number, but got None"):
        RunConfig(holdout=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("images", "memory"), [(60, 50), (385, 77), (2_499, 499), (60_000, 500)])
def test_the_memory_of_small_sets_is_a_part_of_them(images: int, memory: int) -> None:
    part = ImageSet(torch.zeros(images, 1, 1, 1, dtype=torch.uint8), torch.zeros(images, dtype=torch.int64))
    source = DataSource("mine", ("a", "b"), part, part)
    assert resolve_memory(RunConfig(), source) == memory
    assert resolve_memory(RunConfig(memory=7), source) == 7


@pytest.mark.parametrize(("name", "value"), [("tell_noise", "no"), ("graphs", 1), ("evaluate_epochs", None)])
def test_what_is_no_boolean_is_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} should be True or False, but got {value!r}"):
        RunConfig(**{name: value})

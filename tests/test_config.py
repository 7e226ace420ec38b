"""A config that cannot be meant is refused where it is made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from puridiver.config import LEAST, RunConfig


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

"""What all tests share: one thread for each worker, repeatable examples, and no GPU test without a GPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

from puridiver import plugins

torch.set_num_threads(1)  # several workers with several threads each would starve one another

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None, max_examples=40)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def switches_of_torch_stay_in_their_test() -> Iterator[None]:
    """`choose_runtime` sets one for a whole process: a test must not pass because another ran before it."""
    before = torch.backends.cudnn.deterministic
    torch.backends.cudnn.deterministic = False
    yield
    torch.backends.cudnn.deterministic = before


@pytest.fixture
def forgotten_plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is forgotten after it."""
    registries = [registry for _, registry in plugins.FAMILIES.values()]
    kept = [dict(registry) for registry in registries]
    loaded, path, origins = set(plugins._loaded), list(sys.path), dict(plugins._origins)
    monkeypatch.setenv(plugins.ENVIRONMENT, "")
    yield
    for registry, before in zip(registries, kept, strict=True):
        registry.clear()
        registry.update(before)
    plugins._loaded.clear()
    plugins._loaded.update(loaded)
    plugins._origins.clear()
    plugins._origins.update(origins)
    sys.path[:] = path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))

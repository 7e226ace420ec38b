from __future__ import annotations

from collections.abc import Iterator

import pytest

from puridiver.auditing import noise_model


@pytest.fixture(scope="session", autouse=True)
def few_draws() -> Iterator[None]:
    """Bootstrap with fewer draws, to save time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(noise_model, "DRAWS", 30)
        yield

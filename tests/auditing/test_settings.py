"""What an audit decides by itself."""

from __future__ import annotations

import pytest

from puridiver.auditing.settings import AuditSettings


@pytest.mark.parametrize(
    ("samples", "memory", "epochs"), [(100, 50, 63), (615, 123, 63), (620, 124, 31), (1_279, 255, 31), (1_437, 287, 15)]
)
def test_a_small_memory_is_trained_for_more_epochs(samples: int, memory: int, epochs: int) -> None:
    settings = AuditSettings(passes=1, parts=2)
    assert settings.memory_for(samples) == memory
    assert settings.epochs_for(memory) == epochs
    assert settings.work(samples) == samples + 2 * memory * epochs
    assert AuditSettings(epochs=7).epochs_for(memory) == 7

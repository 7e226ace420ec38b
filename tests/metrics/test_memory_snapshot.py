"""A snapshot of the memory is read as it was written; a damaged file is a data error."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from puridiver.errors import DataError
from puridiver.metrics.memory_snapshot import ARRAYS, UNKNOWN, MemorySnapshot


def snapshot(n: int = 5) -> MemorySnapshot:
    rng = np.random.default_rng(0)
    return MemorySnapshot(
        images=rng.integers(256, size=(n, 4, 6, 3), dtype=np.uint8),
        arrivals=np.arange(n),
        given=rng.integers(3, size=n),
        suggested=rng.integers(3, size=n),
        true=np.full(n, UNKNOWN),
        p_correct=rng.random(n, dtype=np.float32),
        sets=rng.integers(3, size=n, dtype=np.uint8),
    )


@pytest.mark.parametrize("n", [0, 1, 5])
def test_what_is_written_is_read(tmp_path: Path, n: int) -> None:
    kept = snapshot(n)
    (tmp_path / "memory").write_bytes(kept.to_bytes())
    read = MemorySnapshot.read(tmp_path / "memory")
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(read, name), getattr(kept, name))
        assert getattr(read, name).dtype == getattr(kept, name).dtype
    assert read.names is None


def test_names_are_kept_too(tmp_path: Path) -> None:
    names = ["a/1.png", "<b>&.png", "ü.png", "\udcff.png", ""]
    (tmp_path / "memory").write_bytes(dataclasses.replace(snapshot(), names=names).to_bytes())
    assert MemorySnapshot.read(tmp_path / "memory").names == names
    with pytest.raises(ValueError, match="N of all else"):
        dataclasses.replace(snapshot(), names=names[:2])


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="N of all else"):
        dataclasses.replace(snapshot(), given=np.zeros(2))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is damaged"),
        (snapshot().to_bytes()[:-10], "is damaged"),
        (save({"images": np.zeros(1)}), "should be of the format"),
        (save({"images": np.zeros(1)}, metadata={"format": "puridiver memory 1"}), "is damaged"),
    ],
)
def test_a_file_that_is_no_whole_snapshot_is_a_data_error(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "memory").write_bytes(content)
    with pytest.raises(DataError, match=words):
        MemorySnapshot.read(tmp_path / "memory")

"""A snapshot of the memory is read as it was written; a damaged file is a data error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save

from puridiver import Learner
from puridiver.data.base import UNKNOWN
from puridiver.errors import DataError
from puridiver.metrics.memory_snapshot import MemorySnapshot
from puridiver.trainers import SET_NAMES
from tests.learner_samples import patterns, tiny_learner


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
        names=["a/1.png", "<b>&.png", "ü.png", "\udcff.png", ""][:n],
    )


ARRAYS = {name: value for name, value in vars(snapshot()).items() if name != "names"}


@pytest.mark.parametrize("n", [0, 1, 5])
def test_what_is_written_is_read(tmp_path: Path, n: int) -> None:
    kept = snapshot(n)
    (tmp_path / "memory").write_bytes(kept.to_bytes())
    read = MemorySnapshot.read(tmp_path / "memory")
    assert read.names == kept.names
    for name, value in vars(kept).items():
        np.testing.assert_array_equal(getattr(read, name), value)
        assert name == "names" or getattr(read, name).dtype == value.dtype


@pytest.mark.parametrize(
    "content",
    [
        b"", snapshot().to_bytes()[:-10], save({"images": np.zeros(1)}),
        save({"images": np.zeros(1)}, metadata={"names": "[]"}), save(ARRAYS, metadata={"names": '["one"]'}),
    ],
)  # fmt: skip
def test_a_file_that_is_no_whole_snapshot_is_a_data_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "memory").write_bytes(content)
    with pytest.raises(DataError, match="is damaged"):
        MemorySnapshot.read(tmp_path / "memory")


def test_the_snapshot_is_the_memory_with_its_audit():
    learner = tiny_learner()
    learner.observe(*patterns(24))
    samples, true = learner.memory.samples, torch.arange(12) % 3
    found = MemorySnapshot.of(learner, true)
    np.testing.assert_array_equal(found.images, samples.images.permute(0, 2, 3, 1).numpy())
    np.testing.assert_array_equal(found.given, samples.labels.numpy())
    np.testing.assert_array_equal(found.true, true.numpy())
    for row in learner.audit():
        (i,) = np.flatnonzero(found.arrivals == row.arrival)
        assert learner.classes[found.suggested[i]] == row.suggested_label
        assert found.p_correct[i] == pytest.approx(row.p_correct)
        assert SET_NAMES[found.sets[i]] == row.set


def test_large_images_are_kept_as_thumbnails():
    learner = Learner(3, (100, 80, 3), 4, device="cpu", sampler="rsv", trainer="plain", network="small", crop_padding=1)
    images = np.full((4, 100, 80, 3), 200, dtype=np.uint8)
    images[:, :50] = 40
    learner.observe(images, [0, 1, 2, 0])
    kept = MemorySnapshot.of(learner, torch.zeros(4, dtype=torch.int64)).images
    assert kept.shape == (4, 64, 51, 3)
    assert (kept[:, 0].max(), kept[:, -1].min()) == (40, 200)

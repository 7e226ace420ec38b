"""Storage: what is saved comes back, damage is named, and a crash leaves the old state."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from puridiver import files
from puridiver.errors import BusyError, DataError
from puridiver.learner import storage

SETTINGS: dict[str, Any] = {"classes": ["cat", "dög"], "seen": 12, "hint": None, "options": {"eta": 0.1, "flip": True}}


def tensors(seed: int = 0) -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(seed)
    return {
        "weights": torch.randn(3, 4, generator=g),
        "double": torch.randn(2, generator=g, dtype=torch.float64),
        "images": torch.randint(256, (2, 1, 3, 3), dtype=torch.uint8, generator=g),
        "labels": torch.randint(9, (5,), generator=g),
        "mask": torch.rand(5, generator=g) > 0.5,
        "scalar": torch.rand((), generator=g),
        "transposed": torch.randn(3, 4, generator=g).T,
        "slice": torch.randn(9, generator=g)[::2],
        "nothing": torch.empty(0, 3),
        "odd": torch.tensor([float("nan"), float("inf"), -0.0]),
        "generator": g.get_state(),
    }


def assert_same(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert set(actual) == set(expected)
    for name, value in expected.items():
        assert actual[name].dtype == value.dtype
        torch.testing.assert_close(actual[name], value, rtol=0, atol=0, equal_nan=True)


def test_settings_and_tensors_come_back(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "learner"
    assert storage.save(folder, SETTINGS, tensors()) == folder
    settings, loaded = storage.load(folder)
    assert settings == SETTINGS
    assert_same(loaded, tensors())


def test_a_new_save_replaces_the_old_one_and_its_files(tmp_path: Path) -> None:
    storage.save(tmp_path, SETTINGS, tensors(0))
    storage.save(tmp_path, {"seen": 99}, tensors(1))
    settings, loaded = storage.load(tmp_path)
    assert settings == {"seen": 99}
    assert_same(loaded, tensors(1))
    assert [path.name for path in tmp_path.iterdir()] == [storage.FILE]


def test_a_crash_before_the_commit_leaves_the_old_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.save(tmp_path, SETTINGS, tensors(0))

    def failing_replace(source: Any, target: Any) -> None:
        raise OSError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failing_replace)
        with pytest.raises(OSError, match="power cut"):
            storage.save(tmp_path, {"seen": 99}, tensors(1))
    settings, loaded = storage.load(tmp_path)
    assert settings == SETTINGS
    assert_same(loaded, tensors(0))
    (tmp_path / f".{storage.FILE}.7-7.tmp").write_bytes(b"what a killed save leaves")
    storage.save(tmp_path, {"seen": 99}, tensors(1))
    assert_same(storage.load(tmp_path)[1], tensors(1))
    assert [path.name for path in tmp_path.iterdir()] == [storage.FILE]


def of_another(header: Any) -> bytes:
    return safetensors.torch.save({"a": torch.zeros(3)}, {"puridiver": json.dumps(header)})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is damaged"),
        (b"\x10\0\0\0\0\0\0\0 not a header ....", "is damaged"),
        (safetensors.torch.save({"a": torch.zeros(3)}), "is damaged: format should be"),
        (of_another([]), "is damaged"),
        (of_another({"format": storage.FORMAT}), "is damaged: sha256 should be"),
        (of_another({"format": storage.FORMAT, "sha256": "0", "settings": {}}), "is damaged: its checksum"),
        (of_another({"format": 2}), "saved in format 2, but this version reads format"),
    ],
)
def test_a_file_of_something_else_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / storage.FILE).write_bytes(content)
    with pytest.raises(DataError, match=message):
        storage.load(tmp_path)


def test_a_changed_byte_is_found_wherever_it_is(tmp_path: Path) -> None:
    path = storage.save(tmp_path, SETTINGS, tensors()) / storage.FILE
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(DataError, match=str(tmp_path)):
            storage.load(tmp_path)


def test_a_folder_without_a_save_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere holds no saved state"):
        storage.load(tmp_path / "nowhere")


def test_there_is_one_writer_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, refused = files.write_atomically, list[BusyError]()

    def overtaken(path: Path, content: bytes | memoryview) -> None:
        with pytest.raises(BusyError, match="saving to") as caught:
            storage.save(tmp_path, {"n": 2}, tensors(2))
        refused.append(caught.value)
        write(path, content)

    monkeypatch.setattr(storage, "WAIT_SECONDS", 0.0)
    monkeypatch.setattr(storage, "write_atomically", overtaken)
    storage.save(tmp_path, {"n": 1}, tensors(1))
    assert len(refused) == 1
    assert storage.load(tmp_path)[0] == {"n": 1}

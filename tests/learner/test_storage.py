"""Storage: what is saved comes back, damage is named, and a crash leaves the old state."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
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


def tensor_file(folder: Path) -> Path:
    (file,) = folder.glob("*.safetensors")
    return file


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
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("steps_done", [0, 1])
def test_a_crash_before_either_commit_leaves_the_old_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps_done: int
) -> None:
    storage.save(tmp_path, SETTINGS, tensors(0))
    replace, calls = os.replace, []

    def failing_replace(source: Any, target: Any) -> None:
        calls.append(target)
        if len(calls) > steps_done:
            raise OSError("power cut")
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failing_replace)
        with pytest.raises(OSError, match="power cut"):
            storage.save(tmp_path, {"seen": 99}, tensors(1))
    settings, loaded = storage.load(tmp_path)
    assert settings == SETTINGS
    assert_same(loaded, tensors(0))
    storage.save(tmp_path, {"seen": 99}, tensors(1))
    assert_same(storage.load(tmp_path)[1], tensors(1))
    assert len(list(tmp_path.iterdir())) == 2


def rewrite_index(folder: Path, **changes: Any) -> None:
    index = json.loads((folder / storage.INDEX).read_text()) | changes
    (folder / storage.INDEX).write_text(json.dumps(index))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff\xfe", b'{"format": 4}', b"7"])
def test_a_damaged_index_is_named(tmp_path: Path, content: bytes) -> None:
    storage.save(tmp_path, SETTINGS, tensors())
    (tmp_path / storage.INDEX).write_bytes(content)
    with pytest.raises(DataError, match=r"state\.json is damaged"):
        storage.load(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, r"format 2, but this version reads format 4"),
        ({"settings": {**SETTINGS, "seen": 13}}, r"state\.json is damaged: the checksum of its settings"),
    ],
)
def test_a_changed_index_is_found(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    storage.save(tmp_path, SETTINGS, tensors())
    rewrite_index(tmp_path, **changes)
    with pytest.raises(DataError, match=message):
        storage.load(tmp_path)


GARBAGE = b"\x10\0\0\0\0\0\0\0 not a header ...."


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (lambda content: content[:-1] + bytes([content[-1] ^ 1]), "is damaged: its checksum"),
        (lambda content: GARBAGE, "does not hold tensors"),
        (None, "is missing"),
    ],
)
def test_damaged_tensors_are_named(tmp_path: Path, damaged: Callable[[bytes], bytes] | None, message: str) -> None:
    storage.save(tmp_path, SETTINGS, tensors())
    file = tensor_file(tmp_path)
    content = damaged(file.read_bytes()) if damaged else None
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    if content == GARBAGE:  # what it is, and no chance
        rewrite_index(tmp_path, sha256=hashlib.sha256(GARBAGE).hexdigest())
    with pytest.raises(DataError, match=rf"{file.name} {message}"):
        storage.load(tmp_path)


def test_a_folder_without_a_save_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere holds no saved state"):
        storage.load(tmp_path / "nowhere")


def test_an_index_cannot_point_outside_its_folder(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    storage.save(inside, SETTINGS, tensors(0))
    storage.save(outside, SETTINGS, tensors(1))
    rewrite_index(inside, tensors=f"../outside/{tensor_file(outside).name}")
    with pytest.raises(DataError, match="missing"):
        storage.load(inside)


def test_a_reader_that_a_newer_save_overtakes_reads_the_newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.save(tmp_path, {"n": 1}, {"a": torch.zeros(3)})
    read_index, calls = storage._read_index, []

    def slowly(folder: Path) -> dict[str, object]:
        found = read_index(folder)
        calls.append(found)
        if len(calls) == 1:
            storage.save(tmp_path, {"n": 2}, {"a": torch.ones(3)})
        return found

    monkeypatch.setattr(storage, "_read_index", slowly)
    settings, tensors = storage.load(tmp_path)
    assert (settings["n"], tensors["a"].tolist()) == (2, [1.0, 1.0, 1.0])


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
    assert len(refused) == 2  # for the tensors and for the index
    assert storage.load(tmp_path)[0] == {"n": 1}

"""Data from arrays, in memory and in .npz files, also hostile ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from puridiver.data import FileOptions, from_arrays, load, load_npz, verify
from puridiver.data import arrays as module
from puridiver.data.arrays import read_arrays
from puridiver.errors import DataError


def arrays(**changes: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    good = {
        "train_images": rng.integers(0, 256, (6, 4, 5, 3), dtype=np.uint8),
        "train_labels": np.array([0, 1, 2, 0, 1, 2]),
        "test_images": rng.integers(0, 256, (3, 4, 5, 3), dtype=np.uint8),
        "test_labels": np.array([2, 1, 0]),
    }
    return good | changes


def saved(path: Path, **content: Any) -> Path:
    np.savez(path, **content)
    return path


def test_bytes_pass_unchanged_and_are_copied() -> None:
    given = arrays()
    source = from_arrays(**given)
    assert np.array_equal(source.train.images.numpy(), given["train_images"])
    assert np.array_equal(source.test.labels.numpy(), given["test_labels"])
    assert (source.input_shape, source.class_names) == ((4, 5, 3), ("0", "1", "2"))
    tensors: dict[str, Any] = {key: torch.from_numpy(array.copy()) for key, array in given.items()}
    assert from_arrays(**tensors).fingerprint == source.fingerprint
    given["train_images"][:] = 0
    assert source.train.images.any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_floats_become_the_nearest_byte(dtype: torch.dtype) -> None:
    values = torch.linspace(0, 1, 6, dtype=dtype)[:, None, None].expand(6, 4, 5)
    source = from_arrays(**arrays(train_images=values, test_images=np.zeros((3, 4, 5), np.float32)))
    assert source.input_shape == (4, 5, 1)
    assert (source.train.images[:, 0, 0, 0].float() - 255 * values[:, 0, 0].float()).abs().max() <= 0.51


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_images": np.full((6, 4, 5, 3), 1.5)}, r"train_images of floats should be .* in \[0, 1\]"),
        ({"test_images": np.full((3, 4, 5, 3), np.nan)}, "test_images .* finite"),
        ({"train_images": torch.zeros(6, 4, 5, 3).to_sparse()}, "train_images should be a dense tensor"),
        ({"train_images": np.zeros((6, 2, 4, 5), np.uint8)}, r"but got \(6, 2, 4, 5\)"),
        ({"train_images": np.zeros((0, 4, 5, 3), np.uint8), "train_labels": np.zeros(0, int)}, "be train images"),
        ({"test_images": np.zeros((3, 4, 6, 3), np.uint8)}, r"\(6, 4, 5, 3\) and \(3, 4, 6, 3\)"),
        ({"train_labels": np.zeros(5, np.int64)}, r"train_labels .* \(6,\)"),
        ({"class_names": ["a", "a\0", "b"]}, "no NUL"),
        ({"train_labels": np.array(["a"] * 6)}, "train_labels should be class ids from 0 .* but there is 'a'"),
        ({"test_labels": np.array([0, -1, 0]), "class_names": "abc"}, "class ids from 0 to 2, but there is '-1'"),
        ({"test_labels": np.array([0, 100_000, 0])}, "class ids from 0 to 99999, but there is '100000'"),
        ({"class_names": ["a", "b", "a"]}, "all differ, but more than one is called a$"),
        ({"class_names": [f"c{n}" for n in range(3000)] * 2}, "c9 and 2,990 more"),
    ],
)
def test_arrays_that_cannot_be_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        from_arrays(**arrays(**changes))
    assert len(str(caught.value)) < 300


def test_a_file_says_the_same_as_arrays(tmp_path: Path) -> None:
    path = saved(tmp_path / "mine.npz", **arrays())
    source = load(str(path))
    assert source.name == "mine"
    assert torch.equal(source.train.images, from_arrays(**arrays()).train.images)
    assert not source.train.truth_known
    assert load(str(path), options=FileOptions(trust_labels=True)).train.truth_known
    assert source.defaults == {"noise": "none", "tasks": 3}
    assert verify(str(path)) == []
    part = saved(tmp_path / "part.npz", **{key: value for key, value in arrays().items() if "train" in key})
    assert len(load_npz(part, test_share=0).test) == 0
    with pytest.raises(DataError, match=r"has no test part .*--test-share"):
        load_npz(part)


def test_classes_may_have_names_and_true_labels_may_be_told(tmp_path: Path) -> None:
    true, names = np.array([0, 1, 2, 1, -1, 2]), np.array(["c", "b", "a"])
    source = load_npz(saved(tmp_path / "mine.npz", **arrays(), train_true_labels=true, class_names=names))
    assert source.class_names == ("c", "b", "a")
    assert source.train.true_labels.tolist() == true.tolist()
    for wrong in (np.array([0, 1, 2, 0, 1, 3]), np.array([0, 1, 2, 0, 1, -2]), np.zeros(6), np.zeros(0, int)):
        with pytest.raises(DataError, match="does not hold usable arrays: train_true_labels should"):
            load_npz(saved(tmp_path / "wrong.npz", **arrays(), train_true_labels=wrong))


def test_a_share_of_each_class_can_be_kept_for_testing(tmp_path: Path) -> None:
    labels = np.repeat([0, 1], [20, 10])
    images = np.arange(30, dtype=np.uint8)[:, None, None].repeat(4, 1).repeat(4, 2)
    train = {"train_images": images, "train_labels": labels, "train_true_labels": 1 - labels}
    source = load_npz(saved(tmp_path / "train.npz", **train, train_times=np.arange(30) / 2), test_share=0.2)
    assert source.train.times.tolist() == [image / 2 for image in source.train.images[:, 0, 0, 0].tolist()]
    assert source.test.labels.bincount().tolist() == [2, 4]  # by the true ones
    assert sorted(torch.cat([source.train.images, source.test.images])[:, 0, 0, 0].tolist()) == list(range(30))
    assert torch.equal(source.train.true_labels, 1 - source.train.labels)
    with pytest.raises(ValueError, match="has a test part of its own: leave the test share out"):
        load_npz(saved(tmp_path / "whole.npz", **arrays()), test_share=0.2)
    with pytest.raises(DataError, match="train_times should be 30 finite numbers"):
        load_npz(saved(tmp_path / "wrong.npz", **train, train_times=np.full(30, np.nan)), test_share=0.2)


def test_pickles_damage_pipes_and_missing_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="plain arrays"):
        load_npz(saved(tmp_path / "o.npz", **arrays(train_labels=np.array([{}] * 6, dtype=object))))
    path = saved(tmp_path / "mine.npz", **arrays())
    content = bytearray(path.read_bytes())
    content[100:200] = bytes(100)
    path.write_bytes(content)
    with pytest.raises(DataError, match="damaged"):
        load_npz(path)
    with pytest.raises(DataError, match=r"there is no file .*absent\.npz"):
        load_npz(tmp_path / "absent.npz")
    for content in (b"", b"PK\x03\x04 and then nonsense"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"mine\.npz (is not .* or is damaged|should hold)"):
            load_npz(path)
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(DataError, match="not a regular file"):
        load_npz(tmp_path / "pipe.npz")


def test_a_small_file_that_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNPACKED_BYTES", 1 << 20)
    np.savez_compressed(tmp_path / "bomb.npz", train_images=np.zeros((3_000, 32, 32), np.uint8))
    with pytest.raises(DataError, match="decompression bomb"):
        read_arrays(tmp_path / "bomb.npz", ["train_images"])

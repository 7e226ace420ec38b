from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from puridiver.data import DataSource, from_arrays, load_npz
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


def grey(dtype: Any, count: int) -> np.ndarray:
    return np.zeros((count, 4, 5), dtype)


def test_bytes_pass_unchanged() -> None:
    given_arrays = arrays()
    source = from_arrays(**given_arrays)
    assert np.array_equal(source.train.images.numpy(), given_arrays["train_images"])
    assert np.array_equal(source.test.labels.numpy(), given_arrays["test_labels"])
    assert source.image_shape == (4, 5, 3)
    assert source.class_names == ("0", "1", "2")


def test_the_source_does_not_change_with_the_arrays() -> None:
    given_arrays = arrays()
    source = from_arrays(**given_arrays)
    before = source.train.images.clone()
    given_arrays["train_images"][:] = 0
    assert torch.equal(source.train.images, before)


def test_read_only_arrays_are_fine() -> None:
    given_arrays = arrays()
    for array in given_arrays.values():
        array.setflags(write=False)
    assert len(from_arrays(**given_arrays).train) == 6


def test_tensors_give_the_same_as_arrays() -> None:
    tensors: dict[str, Any] = {key: torch.from_numpy(array) for key, array in arrays().items()}
    assert from_arrays(**tensors).fingerprint == from_arrays(**arrays()).fingerprint


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_float_tensors_of_any_precision_are_fine(dtype: torch.dtype) -> None:
    source = from_arrays(**arrays(train_images=torch.ones(6, 4, 5, 3, dtype=dtype)))
    assert source.train.images.unique().tolist() == [255]


def test_images_without_channels_are_grey() -> None:
    source = from_arrays(**arrays(train_images=grey(np.uint8, 6), test_images=grey(np.float32, 3)))
    assert source.image_shape == (4, 5, 1)


@settings(deadline=None)
@given(st.floats(0, 1))
def test_floats_become_the_nearest_byte(value: float) -> None:
    images = np.full((6, 4, 5, 3), value)
    (byte,) = from_arrays(**arrays(train_images=images)).train.images.unique().tolist()
    assert abs(byte - value * 255) <= 0.5 + 1e-4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_images": np.full((6, 4, 5, 3), 1.5)}, "train_images .* from 1.5 to 1.5"),
        ({"train_images": np.full((6, 4, 5, 3), -0.5)}, "from 0 to 1, but go from -0.5"),
        ({"test_images": np.full((3, 4, 5, 3), np.nan)}, "test_images as floats should be finite"),
        ({"test_images": np.full((3, 4, 5, 3), np.inf)}, "test_images as floats should be finite"),
        ({"train_images": np.zeros((6, 4, 5, 3), np.int32)}, "uint8, or floats .* but got int32"),
        ({"train_images": np.zeros((6, 3, 4, 5), np.uint8)}, r"but got \(6, 3, 4, 5\)"),
        ({"train_images": np.zeros((0, 4, 5, 3), np.uint8)}, r"but got \(0, 4, 5, 3\)"),
        ({"test_images": np.zeros((3, 4, 6, 3), np.uint8)}, r"\(4, 5, 3\) and \(4, 6, 3\)"),
        ({"train_labels": np.zeros(5, np.int64)}, r"train_labels .* \(6,\), but got int64 of shape \(5,\)"),
        ({"train_labels": np.zeros(6)}, "integers .* but got float64"),
        ({"train_labels": np.zeros(6, bool)}, "integers .* but got bool"),
        ({"test_labels": np.array([0, -1, 0])}, "test_labels .* the smallest is -1"),
        ({"class_names": ["a", "b"]}, "from 0 to 1, as there are 2 class_names, but the largest is 2"),
        ({"class_names": ["a", "b", "a"]}, "all differ, but more than one is called a$"),
    ],
)
def test_wrong_arrays_are_told(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_arrays(**arrays(**changes))


def saved(path: Path, **content: Any) -> Path:
    np.savez_compressed(path, **content)
    return path


def test_an_npz_file_gives_the_same_source(tmp_path: Path) -> None:
    path = saved(tmp_path / "mine.npz", **arrays(class_names=np.array(["a", "b", "ç"])))
    source = load_npz(path, trust_labels=True)
    assert isinstance(source, DataSource)
    assert source.name == "mine"
    assert source.fingerprint == from_arrays(**arrays(class_names=["a", "b", "ç"])).fingerprint


def test_class_names_and_unknown_keys_are_optional(tmp_path: Path) -> None:
    source = load_npz(saved(tmp_path / "mine.npz", **arrays(), comment=np.zeros(3)))
    assert source.class_names == ("0", "1", "2")


def test_missing_keys_are_told(tmp_path: Path) -> None:
    path = saved(tmp_path / "mine.npz", train_images=np.zeros(3), x=np.zeros(3))
    with pytest.raises(DataError, match=r"train_labels, test_images, .* but holds train_images, x"):
        load_npz(path)


def test_a_test_part_can_be_left_out_where_none_is_needed(tmp_path: Path) -> None:
    content = arrays()
    train = {key: content[key] for key in ("train_images", "train_labels")}
    source = load_npz(saved(tmp_path / "mine.npz", **train), needs_test=False)
    assert (len(source.train), len(source.test)) == (6, 0)
    whole = load_npz(saved(tmp_path / "whole.npz", **content), needs_test=False)
    assert len(whole.test) == 3
    half = saved(tmp_path / "half.npz", **train, test_images=content["test_images"])
    with pytest.raises(DataError, match=r"should hold the keys .* test_labels"):
        load_npz(half, needs_test=False)


def test_nobody_knows_the_true_labels_of_a_file_unless_it_says_so(tmp_path: Path) -> None:
    plain = load_npz(saved(tmp_path / "plain.npz", **arrays()))
    assert plain.train.true_labels.tolist() == [-1] * 6
    assert not plain.train.truth_known
    assert plain.defaults == {"noise": "none", "tasks": 3}
    assert load_npz(tmp_path / "plain.npz", trust_labels=True).train.true is None
    told = load_npz(saved(tmp_path / "told.npz", **arrays(), train_true_labels=np.array([0, 1, 1, -1, 1, 2])))
    assert told.train.true_labels.tolist() == [0, 1, 1, -1, 1, 2]


@pytest.mark.parametrize(
    "true",
    [np.array([0, 1, 2]), np.array([0, 1, 2, 0, 1, 3]), np.array([0, 1, 2, 0, 1, -2]), np.zeros(6), np.zeros(0, int)],
)
def test_true_labels_that_cannot_be_are_refused(true: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="train_true_labels should be 6 class ids below 3, -1 where nobody knows"):
        load_npz(saved(tmp_path / "mine.npz", **arrays(), train_true_labels=true))


def test_labels_may_be_names(tmp_path: Path) -> None:
    words = {"train_labels": np.array(["b", "a", "c", "b", "a", "c"]), "test_labels": np.array(["c", "a", "b"])}
    true = np.array(["b", "a", "c", "a", "a", "c"])
    source = load_npz(saved(tmp_path / "mine.npz", **arrays(**words), train_true_labels=true))
    assert source.class_names == ("a", "b", "c")
    assert source.train.labels.tolist() == [1, 0, 2, 1, 0, 2]
    assert source.train.true_labels.tolist() == [1, 0, 2, 0, 0, 2]
    assert source.test.labels.tolist() == [2, 0, 1]
    ordered = load_npz(saved(tmp_path / "named.npz", **arrays(**words), class_names=np.array(["c", "b", "a"])))
    assert ordered.train.labels.tolist() == [1, 2, 0, 1, 2, 0]
    unsure = load_npz(saved(tmp_path / "unsure.npz", **arrays(**words), train_true_labels=np.array(["b", ""] * 3)))
    assert unsure.train.true_labels.tolist() == [1, -1] * 3
    with pytest.raises(DataError, match="class ids in both parts, or class names in both"):
        load_npz(saved(tmp_path / "mixed.npz", **arrays(train_labels=words["train_labels"])))
    with pytest.raises(DataError, match="labels should be among the class names a, b, but there is 'c'"):
        load_npz(saved(tmp_path / "lacking.npz", **arrays(**words), class_names=np.array(["a", "b"])))


def test_a_share_of_each_class_can_be_kept_for_testing(tmp_path: Path) -> None:
    labels = np.repeat([0, 1], [20, 10])
    images = np.arange(30, dtype=np.uint8)[:, None, None].repeat(4, 1).repeat(4, 2)
    path = saved(tmp_path / "train.npz", train_images=images, train_labels=labels, train_true_labels=1 - labels)
    source = load_npz(path, test_share=0.2)
    assert source.test.labels.bincount().tolist() == [2, 4]  # by the true ones
    assert sorted(torch.cat([source.train.images, source.test.images])[:, 0, 0, 0].tolist()) == list(range(30))
    assert torch.equal(source.train.labels, torch.from_numpy(labels)[source.train.images[:, 0, 0, 0].long()])
    assert torch.equal(source.train.true_labels, 1 - source.train.labels)
    with pytest.raises(ValueError, match="has a test part of its own: leave the test share out"):
        load_npz(saved(tmp_path / "whole.npz", **arrays()), test_share=0.2)


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    path = saved(tmp_path / "mine.npz", **arrays(train_labels=np.array([{}] * 6, dtype=object)))
    with pytest.raises(DataError, match="without unpickling"):
        load_npz(path)


@pytest.mark.parametrize("content", [b"", b"\x80\x04]\x94.", b"PK\x03\x04 and then nonsense"])
def test_what_is_no_npz_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"not an \.npz file.* train_images"):
        load_npz(path)


def test_a_damaged_npz_is_told(tmp_path: Path) -> None:
    path = saved(tmp_path / "mine.npz", **arrays())
    content = bytearray(path.read_bytes())
    content[100:200] = bytes(100)
    path.write_bytes(content)
    with pytest.raises(DataError, match="damaged"):
        load_npz(path)


def test_unusable_arrays_in_a_file_name_the_file(tmp_path: Path) -> None:
    path = saved(tmp_path / "mine.npz", **arrays(class_names=np.array([1, 2, 3])))
    with pytest.raises(DataError, match=r"mine\.npz .*class_names should be text"):
        load_npz(path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no file .*absent\.npz"):
        load_npz(tmp_path / "absent.npz")


def test_tasks_are_no_more_than_classes_that_occur(tmp_path: Path) -> None:
    few = {"train_labels": np.array([1, 2, 1, 2, 1, 1000]), "test_labels": np.array([0, 1, 2])}
    assert load_npz(saved(tmp_path / "mine.npz", **arrays(**few))).defaults["tasks"] == 3
    rare = {"train_images": np.zeros((5, 4, 5, 3), np.uint8), "train_labels": np.array([0, 0, 0, 0, 1])}
    assert load_npz(saved(tmp_path / "rare.npz", **rare), test_share=0.6).defaults["tasks"] == 1


def test_messages_name_a_few_of_many_classes() -> None:
    names = [f"class {number}" for number in range(3000)]
    for changes in ({"class_names": names * 2}, {"class_names": names, "train_labels": np.array(["x"] * 6)}):
        with pytest.raises(ValueError, match="class 9 and 2,990 more") as caught:
            from_arrays(**arrays(**changes))
        assert len(str(caught.value)) < 300

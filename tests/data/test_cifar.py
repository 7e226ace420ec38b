from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from puridiver.data import load
from puridiver.data.cifar import CIFAR100_CLASSES, load_cifar10, load_cifar100, next_in_superclass
from puridiver.errors import DataError

FOLDER10 = "cifar-10-batches-bin"
FOLDER100 = "cifar-100-binary"


def test_pixels_come_from_the_three_planes(
    small_cifar10: Path, record_writer: Callable[[Path, np.ndarray, np.random.Generator], np.ndarray]
) -> None:
    rng = np.random.default_rng(3)
    planes = record_writer(small_cifar10 / FOLDER10 / "test_batch.bin", np.array([[7], [2]]), rng)
    test = load_cifar10(small_cifar10, strict=False).test
    assert test.labels.tolist() == [7, 2]
    for row, column, channel in ((0, 0, 0), (0, 31, 1), (5, 9, 2), (31, 0, 0), (31, 31, 2)):
        expected = planes[:, channel * 1024 + row * 32 + column]
        assert test.images[:, row, column, channel].tolist() == expected.tolist()


def test_batches_follow_each_other(small_cifar10: Path) -> None:
    source = load_cifar10(small_cifar10, strict=False)
    assert source.train.labels.tolist() == [*range(10)] * 5
    second = np.fromfile(small_cifar10 / FOLDER10 / "data_batch_2.bin", np.uint8).reshape(10, 3073)
    assert np.array_equal(source.train.images[10, :, :, 0].flatten().numpy(), second[0, 1:1025])


@pytest.mark.parametrize(("root", "loader"), [(FOLDER10, load_cifar10), (FOLDER100, load_cifar100)])
def test_the_folder_itself_may_be_the_root(
    small_cifar10: Path, small_cifar100: Path, root: str, loader: Callable
) -> None:
    assert loader(small_cifar10 / root, False).fingerprint == loader(small_cifar10, False).fingerprint


def test_fine_labels_are_the_second_byte(small_cifar100: Path) -> None:
    source = load_cifar100(small_cifar100, strict=False)
    assert source.test.labels.tolist() == [*range(100)]
    assert source.image_shape == (32, 32, 3)


def test_cifar10_pairs_go_both_ways(small_cifar10: Path) -> None:
    source = load_cifar10(small_cifar10, strict=False)
    assert source.asymmetric_map is not None
    named = {source.class_names[a]: source.class_names[b] for a, b in source.asymmetric_map.items()}
    assert named == {
        "truck": "airplane",
        "airplane": "truck",
        "automobile": "horse",
        "horse": "automobile",
        "frog": "ship",
        "ship": "frog",
        "cat": "dog",
        "dog": "cat",
        "bird": "deer",
        "deer": "bird",
    }


def test_cifar100_maps_to_the_next_class_of_the_superclass(small_cifar100: Path) -> None:
    following = load_cifar100(small_cifar100, strict=False).asymmetric_map
    assert following == {fine: (fine + 20) % 100 for fine in range(100)}


def test_the_next_class_against_a_loop() -> None:
    rng = np.random.default_rng(4)
    coarse_of = rng.permutation(np.repeat(np.arange(20), 5))
    fine = rng.permutation(np.repeat(np.arange(100), 3))
    expected = {}
    for label in range(100):
        candidate = (label + 1) % 100
        while coarse_of[candidate] != coarse_of[label]:
            candidate = (candidate + 1) % 100
        expected[label] = candidate
    assert next_in_superclass(coarse_of[fine], fine) == expected


def test_a_fine_class_in_two_superclasses_is_told() -> None:
    with pytest.raises(DataError, match="one coarse class"):
        next_in_superclass(np.array([0, 1]), np.array([5, 5]))


def test_class_names_come_from_the_file_or_else_are_the_official_ones(small_cifar100: Path) -> None:
    assert load_cifar100(small_cifar100, strict=False).class_names == CIFAR100_CLASSES
    names = [f"name{number}" for number in range(100)]
    path = small_cifar100 / FOLDER100 / "fine_label_names.txt"
    path.write_text("\n".join(names) + "\n\n")
    assert load_cifar100(small_cifar100, strict=False).class_names == tuple(names)
    path.write_text("one\ntwo\n")
    with pytest.raises(DataError, match="should name 100 classes, but names 2"):
        load_cifar100(small_cifar100, strict=False)


def test_there_are_a_hundred_official_names() -> None:
    assert len(set(CIFAR100_CLASSES)) == 100
    assert CIFAR100_CLASSES[0] == "apple"
    assert CIFAR100_CLASSES[99] == "worm"


def test_strict_asks_for_the_official_size(small_cifar10: Path) -> None:
    with pytest.raises(DataError, match=r"data_batch_1\.bin should have 30,730,000 bytes, but has 30,730"):
        load_cifar10(small_cifar10)


@pytest.mark.parametrize("size", [0, 3072, 30_730_000 + 3073])
def test_even_without_strict_records_are_whole_and_not_too_many(small_cifar10: Path, size: int) -> None:
    path = small_cifar10 / FOLDER10 / "data_batch_4.bin"
    os.truncate(path, size)
    with pytest.raises(DataError, match=rf"data_batch_4\.bin .* multiple of 3,073 .* but has {size:,}"):
        load_cifar10(small_cifar10, strict=False)


@pytest.mark.parametrize(("label", "loader"), [([10], load_cifar10), ([0, 100], load_cifar100)])
def test_labels_out_of_range_are_told(
    small_cifar10: Path,
    small_cifar100: Path,
    record_writer: Callable[[Path, np.ndarray, np.random.Generator], np.ndarray],
    label: list[int],
    loader: Callable,
) -> None:
    path = small_cifar10 / (FOLDER10 if len(label) == 1 else FOLDER100)
    file = path / ("test_batch.bin" if len(label) == 1 else "test.bin")
    record_writer(file, np.array([label]), np.random.default_rng(5))
    with pytest.raises(DataError, match=f"labels from 0 to {label[-1] - 1}, but the largest is {label[-1]}"):
        loader(small_cifar10, strict=False)


def test_a_missing_file_is_told_with_the_command_that_gets_it(small_cifar10: Path) -> None:
    path = small_cifar10 / FOLDER10 / "data_batch_3.bin"
    path.unlink()
    with pytest.raises(DataError) as caught:
        load_cifar10(small_cifar10 / FOLDER10, strict=False)
    assert f"{path} is missing" in str(caught.value)
    assert f"puridiver data fetch cifar10 --root {small_cifar10}" in str(caught.value)


REAL_ROOT = os.environ.get("PURIDIVER_TEST_DATA")


@pytest.mark.skipif(REAL_ROOT is None, reason="PURIDIVER_TEST_DATA names no folder with the real CIFAR-10")
def test_the_real_cifar10() -> None:
    source = load("cifar10", Path(str(REAL_ROOT)))
    assert len(source.train) == 50_000
    assert len(source.test) == 10_000
    means = source.train.images.view(-1, 3).double().mean(dim=0) / 255
    assert torch.allclose(means, torch.tensor([0.4914, 0.4822, 0.4465]).double(), atol=5e-5)
    assert torch.bincount(source.train.labels).tolist() == [5000] * 10
    assert torch.bincount(source.test.labels).tolist() == [1000] * 10

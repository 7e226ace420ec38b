from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from puridiver.data import cifar, cifar_check, verify

TRAIN100 = Path("cifar-100-binary") / "train.bin"


@pytest.fixture
def official_cifar10(small_cifar10: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small folder, with its own sizes and content declared official."""
    layout = replace(
        cifar.CIFAR10,
        train_files=dict.fromkeys(cifar.CIFAR10.train_files, 10),
        test_files={"test_batch.bin": 10},
    )
    monkeypatch.setattr(cifar, "CIFAR10", layout)
    monkeypatch.setattr(cifar_check, "CIFAR10", layout)
    monkeypatch.setattr(cifar_check, "CIFAR10_FINGERPRINT", cifar.load_cifar10(small_cifar10).fingerprint)
    return small_cifar10


@pytest.fixture
def official_cifar100(small_cifar100: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    layout = replace(cifar.CIFAR100, train_files={"train.bin": 200}, test_files={"test.bin": 100})
    monkeypatch.setattr(cifar, "CIFAR100", layout)
    monkeypatch.setattr(cifar_check, "CIFAR100", layout)
    monkeypatch.setattr(cifar_check, "CIFAR100_PER_CLASS", {"train": 2, "test": 1})
    return small_cifar100


def change_byte(path: Path, position: int, value: int) -> None:
    content = np.fromfile(path, np.uint8)
    content[position] = value
    content.tofile(path)


def test_good_folders_have_no_problems(official_cifar10: Path, official_cifar100: Path) -> None:
    assert verify("cifar10", official_cifar10) == []
    assert verify("cifar100", official_cifar100) == []


def test_one_changed_pixel_is_noticed(official_cifar10: Path) -> None:
    path = official_cifar10 / "cifar-10-batches-bin" / "data_batch_5.bin"
    change_byte(path, 1000, int(np.fromfile(path, np.uint8)[1000]) ^ 1)
    problems = verify("cifar10", official_cifar10)
    assert len(problems) == 1
    assert "fingerprint" in problems[0]


def test_every_wrong_file_has_its_line(official_cifar10: Path) -> None:
    folder = official_cifar10 / "cifar-10-batches-bin"
    (folder / "data_batch_1.bin").unlink()
    os.truncate(folder / "test_batch.bin", 3073)
    assert verify("cifar10", official_cifar10) == [
        f"{folder / 'data_batch_1.bin'} is missing",
        f"{folder / 'test_batch.bin'} should have 30,730 bytes, but has 3,073",
    ]


def test_a_missing_folder_is_a_problem(tmp_path: Path) -> None:
    (problem,) = verify("cifar100", tmp_path)
    assert str(tmp_path / "cifar-100-binary") in problem


def test_labels_out_of_range_are_a_problem(official_cifar10: Path, official_cifar100: Path) -> None:
    change_byte(official_cifar10 / "cifar-10-batches-bin" / "test_batch.bin", 0, 10)
    change_byte(official_cifar100 / TRAIN100, 1, 100)
    assert "labels from 0 to 9" in verify("cifar10", official_cifar10)[0]
    assert "labels from 0 to 99" in verify("cifar100", official_cifar100)[0]


def test_unbalanced_classes_are_a_problem(official_cifar100: Path) -> None:
    change_byte(official_cifar100 / TRAIN100, 1, 20)  # an apple becomes a chair: fine 0 -> 20, same superclass
    assert verify("cifar100", official_cifar100) == [
        "train should hold 2 images of class apple, but holds 1",
        "train should hold 2 images of class chair, but holds 3",
    ]


def test_wrong_superclasses_are_a_problem(official_cifar100: Path) -> None:
    for record in (0, 100):
        change_byte(official_cifar100 / TRAIN100, record * 3074, 1)
    assert verify("cifar100", official_cifar100) == [
        "every superclass should hold 5 classes, but 10 classes lie in larger or smaller ones"
    ]

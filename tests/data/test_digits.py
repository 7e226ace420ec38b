from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits as sklearn_digits

from puridiver.data import digits


def test_the_split_is_stratified_and_of_the_promised_size() -> None:
    source = digits.load_digits()
    assert source.image_shape == (8, 8, 1)
    assert len(source.train) == 1397
    assert torch.bincount(source.test.labels).tolist() == [40] * 10
    assert source.class_names == tuple("0123456789")


def test_train_and_test_part_the_whole() -> None:
    labels = sklearn_digits(return_X_y=True)[1]
    train, test = digits.split(labels)
    assert sorted([*train, *test]) == list(range(1797))


def test_values_cover_the_bytes_and_keep_their_order() -> None:
    values = sklearn_digits(return_X_y=True)[0].reshape(-1, 8, 8, 1)
    train, _ = digits.split(sklearn_digits(return_X_y=True)[1])
    images = digits.load_digits().train.images.numpy()
    table = {value: round(value * 255 / 16) for value in range(17)}
    assert table[0] == 0
    assert table[16] == 255
    expected = np.vectorize(table.__getitem__)(values[train].astype(int))
    assert np.array_equal(images, expected)


def test_the_data_are_those_of_our_results() -> None:
    assert digits.check_digits(Path()) == []


def test_other_digits_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits, "SPLIT_SEED", 1)
    assert "fingerprint" in digits.check_digits(Path())[0]


def test_changing_the_defaults_of_one_source_does_not_leak() -> None:
    digits.load_digits().defaults["memory"] = -1
    assert digits.load_digits().defaults["memory"] == digits.DEFAULTS["memory"] != -1

"""`PuriDivERClassifier` against scikit-learn's own checks; the page's code has pipelines and cross-validation."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import SkipTestWarning
from sklearn.utils.estimator_checks import check_estimator

from puridiver.integrations.sklearn import PuriDivERClassifier


def quick(epochs: int = 7, **settings) -> PuriDivERClassifier:
    return PuriDivERClassifier(memory=100, device="cpu", random_state=0, options={"epochs": epochs}, **settings)


def test_scikit_learns_own_checks_pass() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        results = check_estimator(quick(epochs=3))
    skipped = {found["check_name"] for found in results if found["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}  # which an environment variable switches on
    assert len(results) > 50


def test_a_stream_brings_new_classes_and_classes_stay_sorted() -> None:
    x, y = load_digits(return_X_y=True)
    names = np.array([f"digit {label}" for label in y])
    model = quick(consolidate_every=200)
    for rows in (y == 7, y == 2, np.isin(y, (2, 5, 7))):
        model.partial_fit(x[rows], names[rows])
    assert model.classes_.tolist() == ["digit 2", "digit 5", "digit 7"]
    known = np.isin(y, (2, 5, 7))
    assert model.score(x[known], names[known]) > 0.95
    assert model.learner_.consolidations == 894 // 208  # after every 13 batches of 16
    told = clone(model).partial_fit(x[:20], y[:20], classes=range(10))
    assert told.predict_proba(x[:3]).shape == (3, 10)


def test_images_are_taken_as_images() -> None:
    x, y = load_digits(return_X_y=True)
    images = (x.reshape(-1, 8, 8) / 16).astype(np.float32)
    model = PuriDivERClassifier(memory=100, random_state=0, options={"epochs": 7, "flip": False}).fit(
        images[:400], y[:400]
    )
    assert model.learner_.input_shape == (8, 8, 1)
    assert model.score(images[400:600], y[400:600]) > 0.5


def test_options_that_do_not_exist_are_named_by_fit() -> None:
    with pytest.raises(ValueError, match="there is no option 'epoch'; did you mean"):
        PuriDivERClassifier(options={"epoch": 3}).fit(np.eye(4), [0, 1, 0, 1])

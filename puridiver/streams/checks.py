"""Checks of labels and shares that every part of a stream uses."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.int64]


def as_labels(labels: ArrayLike, n_classes: int) -> IntArray:
    """The labels as one-dimensional int64, after checking that they lie in 0 .. n_classes - 1."""
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"labels should be integers of shape (N,), but got {array.dtype} of shape {array.shape}")
    if array.size and (array.min() < 0 or array.max() >= n_classes):
        raise ValueError(f"labels should lie in 0 to {n_classes - 1}, but got {array.min()} to {array.max()}")
    return array.astype(np.int64)


def check_choice(name: str, value: str, allowed: Iterable[str]) -> None:
    """Refuse a value that is not one of those allowed."""
    if value not in (allowed := tuple(allowed)):
        raise ValueError(f"{name} should be one of {', '.join(allowed)}, but got {value!r}")


def check_share(name: str, value: float) -> None:
    """Refuse a share outside [0, 1)."""
    if not 0 <= value < 1:
        raise ValueError(f"{name} should be at least 0 and below 1, but got {value}")


def parse_share(text: str, what: str) -> float:
    """Read "40" (percent) or "0.4" (a fraction below 1) as 0.4."""
    if re.fullmatch(r"\d{1,2}", text):
        return int(text) / 100
    if re.fullmatch(r"0?\.\d+", text):
        return float(text)
    raise ValueError(f"{what} should be a percentage from 0 to 99 or a decimal fraction below 1, but got {text!r}")


def format_share(share: float) -> str:
    """The shortest text that `parse_share` reads back to the same share: "40" for 0.4, "0.125" for 0.125."""
    percent = round(share * 100)
    return str(percent) if percent / 100 == share else np.format_float_positional(share)

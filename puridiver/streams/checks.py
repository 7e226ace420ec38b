"""Checks of labels and shares that every part of a stream uses."""

import re

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.int64]


def require(fine: object, what: str, wanted: object, got: object) -> None:
    """Refuse a value that is not fine, and say what it should be and what came."""
    if not fine:
        raise ValueError(f"{what} should be {wanted}, but got {got}")


def as_ids(what: str, values: ArrayLike, limit: int) -> IntArray:
    """The values as int64 of shape (N,), after checking that they are whole numbers from 0 to limit - 1."""
    array = np.asarray(values)
    fine = array.ndim == 1 and (array.dtype.kind in "iu" or not array.size)
    require(fine, what, "whole numbers of shape (N,)", f"{array.dtype} of shape {array.shape}")
    low, high = array.min(initial=0), array.max(initial=0)
    require(low >= 0 and (high < limit or not array.size), what, f"from 0 to {limit - 1}", f"{low} to {high}")
    return array.astype(np.int64)


def parse_share(text: str, what: str) -> float:
    """Read "40" (percent) or "0.4" (a fraction below 1) as 0.4."""
    fine = re.fullmatch(r"\d{1,2}|0?\.\d+", text)
    require(fine, what, "a percentage from 0 to 99 or a decimal fraction below 1", text)
    return float(text) if "." in text else int(text) / 100


def format_share(share: float) -> str:
    """The shortest text that `parse_share` reads back to the same share: "40" for 0.4, "0.125" for 0.125."""
    percent = round(share * 100)
    return str(percent) if percent / 100 == share else np.format_float_positional(share)

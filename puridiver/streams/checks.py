"""Argument checks for streams."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.int64]


def require(fine: object, what: str, wanted: object, got: object) -> None:
    """Raise a ValueError that says what a value should be and what came, unless it is fine."""
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

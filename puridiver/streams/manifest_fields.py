"""Readers of a manifest's JSON fields: each gives the field's value or a ValueError that says what came."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from puridiver.streams.checks import IntArray

INT64_MAX = int(np.iinfo(np.int64).max)


def _wrong(expected: str, value: object) -> ValueError:
    shown = repr(value)
    return ValueError(f"should be {expected}, but got {shown if len(shown) <= 60 else shown[:60] + '...'}")


def read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong("a text", value)
    return value


def read_integer(value: Any) -> int:
    if type(value) is not int:  # bool is an int to isinstance
        raise _wrong("an integer", value)
    return value


def read_number(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise _wrong("a finite number", value)
    return float(value)


def read_optional_number(value: Any) -> float | None:
    return None if value is None else read_number(value)


def _read_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong("a list", value)
    return value


def read_texts(value: Any) -> tuple[str, ...]:
    return tuple(read_text(item) for item in _read_list(value))


def read_integers(value: Any) -> tuple[int, ...]:
    return tuple(read_integer(item) for item in _read_list(value))


def read_array(value: Any) -> IntArray:
    numbers = read_integers(value)
    if any(abs(number) > INT64_MAX for number in numbers):
        raise _wrong("a list of 64-bit integers", max(numbers, key=abs))
    return np.array(numbers, dtype=np.int64)


def read_groups(value: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(read_integers(item) for item in _read_list(value))


def read_class_map(value: Any) -> dict[int, int] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not all(key.isdecimal() for key in value):
        raise _wrong("null or an object from class ids to class ids", value)
    return {int(key): read_integer(target) for key, target in value.items()}


def read_optional_matrix(value: Any) -> tuple[tuple[float, ...], ...] | None:
    return None if value is None else tuple(tuple(map(read_number, _read_list(row))) for row in _read_list(value))


# Fields that older manifests do not have, and what they are there.
LATER: dict[str, Any] = {"noise_matrix": None, "imbalance": 1.0}

READERS: dict[str, Callable[[Any], Any]] = {
    "format": read_integer,
    "source": read_text,
    "source_fingerprint": read_text,
    "n_classes": read_integer,
    "class_names": read_texts,
    "kind": read_text,
    "seed": read_integer,
    "n_tasks": read_integer,
    "minor_share": read_number,
    "cut_by": read_text,
    "noise": read_text,
    "noise_rate": read_number,
    "noise_map": read_class_map,
    "realised_noise": read_optional_number,
    "task_ends": read_integers,
    "major_classes": read_groups,
    "holdout": read_array,
    "order": read_array,
    "labels": read_array,
    "noise_matrix": read_optional_matrix,
    "imbalance": read_number,
}


def to_json(value: Any) -> Any:
    """A field's value as JSON can hold it."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {str(key): item for key, item in sorted(value.items())}
    return value

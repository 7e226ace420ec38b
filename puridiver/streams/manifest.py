"""The stream manifest: which sample arrives when, with which (possibly wrong) label; written, read, hashed.

True labels are not in it. They come from the data source, and only the metrics ask for them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from puridiver.data.base import DataSource
from puridiver.errors import DataError, ManifestError
from puridiver.files import read_json, write_atomically
from puridiver.streams.checks import IntArray, as_labels, check_choice, check_share
from puridiver.streams.imbalance import BALANCED, check_imbalance
from puridiver.streams.noise import Matrix, check_class_map, is_matrix, noise_kind

FORMAT = 1
CUSTOM = "custom"  # order and labels as somebody gave them
KINDS = ("blurry", "disjoint", "time", "official", CUSTOM)
CUTS = ("given", "true")
UNSET: dict[str, Any] = {"noise_matrix": None, "imbalance": BALANCED}  # not written while they have these values


@dataclass(frozen=True, eq=False)
class StreamManifest:
    """A whole stream, ready to be replayed bit for bit.

    Parameters
    ----------
    source, source_fingerprint
        Name and `DataSource.fingerprint` of the data.
    kind, seed, n_tasks, minor_share, cut_by
        How the tasks were cut: "blurry", "disjoint", "time" (equal parts of the order in time) or "official"
        (published), by "given" or "true" labels. In "custom", an order of one's own, all but n_tasks says nothing.
    noise, noise_rate, noise_map, realised_noise
        Kind of label noise, the rate asked for (0 where the kind has none), the class map of asymmetric noise, and
        the rate that came out: the share of wrong labels among those whose true label is known, None without any.
    task_ends
        For each task, how many samples have arrived when it ends.
    major_classes
        For each task, the ids of its major classes.
    holdout
        Indices into the train images that are kept out of the stream, for validation.
    order, labels
        For each arrival, its index into the train images and its given label.
    noise_matrix
        Of the noise "matrix:HASH", the matrix: row the true class, column the given one.
    imbalance
        The rarest class's share of the most frequent one's samples where the stream was made long-tailed, else 1.
    """

    source: str
    source_fingerprint: str
    n_classes: int
    class_names: tuple[str, ...]
    kind: str
    seed: int
    n_tasks: int
    minor_share: float
    cut_by: str
    noise: str
    noise_rate: float
    noise_map: dict[int, int] | None
    realised_noise: float | None
    task_ends: tuple[int, ...]
    major_classes: tuple[tuple[int, ...], ...]
    holdout: IntArray
    order: IntArray
    labels: IntArray
    format: int = FORMAT  # of the file
    noise_matrix: Matrix | None = None
    imbalance: float = BALANCED

    def __post_init__(self) -> None:
        _check_options(self)
        _check_tasks(self)
        _check_samples(self)
        for name in ("holdout", "order", "labels"):
            frozen = np.array(getattr(self, name), dtype=np.int64)
            frozen.setflags(write=False)
            object.__setattr__(self, name, frozen)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamManifest) and self.content_hash == other.content_hash

    def __hash__(self) -> int:
        return hash(self.content_hash)

    def __len__(self) -> int:
        return len(self.order)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over the canonical JSON of every field."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Every field as JSON can hold it, without the hash and without fields that are unset."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: _to_json(value) for name, value in values.items() if name not in UNSET or value != UNSET[name]}

    @property
    def manner(self) -> dict[str, Any]:
        """How the stream was made but for its seed: what streams of several seeds have in common."""
        names = ("kind", "n_tasks", "minor_share", "cut_by", "noise", "noise_rate", "noise_map", "imbalance")
        return {**{name: _to_json(getattr(self, name)) for name in names}, "holdout": len(self.holdout)}

    def task_slice(self, task: int) -> slice:
        """The arrivals of one task."""
        if not 0 <= task < self.n_tasks:
            raise ValueError(f"task should be from 0 to {self.n_tasks - 1}, but got {task}")
        return slice(self.task_ends[task - 1] if task else 0, self.task_ends[task])

    def counts(self) -> IntArray:
        """How many samples of each given label arrive in each task; (classes, tasks)."""
        parts = [self.labels[self.task_slice(task)] for task in range(self.n_tasks)]
        return np.stack([np.bincount(part, minlength=self.n_classes) for part in parts], axis=1)

    def save(self, path: Path | str) -> None:
        """Write JSON, one field a line; an existing file is replaced only once the new one is complete."""
        path = Path(path)
        content = {**self.to_dict(), "content_hash": self.content_hash}
        lines = (f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in content.items())
        write_atomically(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())

    @classmethod
    def load(cls, path: Path | str) -> StreamManifest:
        """Read and check a manifest; a ManifestError says which check failed."""
        path = Path(path)
        content = _read_object(path)
        stored_hash = content.pop("content_hash", None)
        try:
            manifest = cls(**{name: _read_field(name, value) for name, value in content.items()})
        except ValueError as error:
            raise ManifestError(f"{path}: {error}") from error
        if manifest.content_hash != stored_hash:
            raise ManifestError(
                f"{path}: the content hash should be {manifest.content_hash}, but the file says "
                f"{stored_hash!r}: it was changed after it was written"
            )
        return manifest


def source_fields(source: DataSource) -> dict[str, Any]:
    """The fields of a manifest that say which data it belongs to."""
    return {
        "source": source.name,
        "source_fingerprint": source.fingerprint,
        "n_classes": len(source.class_names),
        "class_names": tuple(source.class_names),
    }


def _to_json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return {str(key): item for key, item in sorted(value.items())} if isinstance(value, dict) else value


# The schema of a manifest file -------------------------------------------------------------------------------------


def _read_object(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path)
    except DataError as error:
        raise ManifestError(str(error)) from error
    if not isinstance(content, dict):
        raise ManifestError(f"{path}: should hold a JSON object, but holds a {type(content).__name__}")
    if "format" not in content:
        raise ManifestError(f"{path}: not a stream manifest, as `puridiver stream make` writes it: it names no format")
    missing = sorted(SCHEMA.keys() - content.keys() - UNSET.keys())
    unknown = sorted(content.keys() - SCHEMA.keys() - {"content_hash"})
    if missing or unknown:
        raise ManifestError(f"{path}: fields missing: {missing or 'none'}; fields unknown: {unknown or 'none'}")
    return content


def _read_field(name: str, value: Any) -> Any:
    try:
        return SCHEMA[name](value)
    except ValueError as error:
        raise ValueError(f"{name} {error}") from error


def _wrong(expected: str, value: object) -> ValueError:
    shown = repr(value) if not isinstance(value, int) or abs(value) < 1 << 200 else "a number of hundreds of digits"
    return ValueError(f"should be {expected}, but got {shown if len(shown) <= 60 else shown[:60] + '...'}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong("a text", value)
    return value


def _integer(value: Any) -> int:
    if type(value) is not int or not -(1 << 63) < value < 1 << 63:  # bool is an int to isinstance
        raise _wrong("a 64-bit integer", value)
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not -1e300 < value < 1e300:  # also false for nan
        raise _wrong("a finite number", value)
    return float(value)


def _tuple_of(read: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def read_all(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise _wrong("a list", value)
        return tuple(read(item) for item in value)

    return read_all


def _array(value: Any) -> IntArray:
    return np.array(_tuple_of(_integer)(value), dtype=np.int64)


def _optional(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


def _class_map(value: Any) -> dict[int, int]:
    if not isinstance(value, dict) or not all(key.isdecimal() and len(key) < 19 for key in value):
        raise _wrong("null or an object from class ids to class ids", value)
    return {int(key): _integer(target) for key, target in value.items()}


SCHEMA: dict[str, Callable[[Any], Any]] = {
    "format": _integer,
    "source": _text,
    "source_fingerprint": _text,
    "n_classes": _integer,
    "class_names": _tuple_of(_text),
    "kind": _text,
    "seed": _integer,
    "n_tasks": _integer,
    "minor_share": _number,
    "cut_by": _text,
    "noise": _text,
    "noise_rate": _number,
    "noise_map": _optional(_class_map),
    "realised_noise": _optional(_number),
    "task_ends": _tuple_of(_integer),
    "major_classes": _tuple_of(_tuple_of(_integer)),
    "holdout": _array,
    "order": _array,
    "labels": _array,
    "noise_matrix": _optional(_tuple_of(_tuple_of(_number))),
    "imbalance": _number,
}


def check_noise(kind: str, matrix: Matrix | None, n_classes: int) -> None:
    """Refuse a kind of noise that there is not, or a matrix that is not the one that the kind names."""
    noise = noise_kind(kind)
    if is_matrix(kind):
        from puridiver.streams.noises.matrix import check_matrix

        check_matrix(kind, matrix, n_classes)
    elif matrix is not None:
        raise ValueError(f"a noise matrix should go with the noise matrix, but the noise is {kind!r}")
    elif ":" in kind or ":" in noise.written:
        noise.variant_kind(kind.partition(":")[2])


def _check_options(manifest: StreamManifest) -> None:
    if manifest.format != FORMAT:
        raise ValueError(f"format should be {FORMAT}, but got {manifest.format!r}")
    check_choice("kind", manifest.kind, KINDS)
    check_choice("cut_by", manifest.cut_by, CUTS)
    check_share("minor_share", manifest.minor_share)
    check_share("noise_rate", manifest.noise_rate)
    check_imbalance(manifest.imbalance)
    check_noise(manifest.noise, manifest.noise_matrix, manifest.n_classes)
    if not noise_kind(manifest.noise).has_rate and manifest.noise_rate:
        raise ValueError(f"noise_rate should be 0 where noise is {manifest.noise!r}, but got {manifest.noise_rate}")
    if manifest.realised_noise is not None and not 0 <= manifest.realised_noise <= 1:
        raise ValueError(f"realised_noise should lie in 0 to 1, but got {manifest.realised_noise}")
    if manifest.seed < 0:
        raise ValueError(f"seed should be at least 0, but got {manifest.seed}")
    if len(manifest.class_names) != manifest.n_classes:
        raise ValueError(f"class_names should be {manifest.n_classes}, but got {len(manifest.class_names)}")
    check_class_map(manifest.noise_map or {}, manifest.n_classes)


def _check_tasks(manifest: StreamManifest) -> None:
    ends = manifest.task_ends
    if manifest.n_tasks < 1 or len(ends) != manifest.n_tasks or len(manifest.major_classes) != manifest.n_tasks:
        raise ValueError(
            f"task_ends and major_classes should have n_tasks = {manifest.n_tasks} (at least 1) entries, "
            f"but got {len(ends)} and {len(manifest.major_classes)}"
        )
    if list(ends) != sorted(ends) or ends[0] < 0 or ends[-1] != len(manifest.order):
        raise ValueError(f"task_ends should rise to {len(manifest.order)}, the length of order, but got {ends}")
    major = [c for group in manifest.major_classes for c in group]
    if len(set(major)) != len(major) or not set(major) <= set(range(manifest.n_classes)):
        raise ValueError(
            f"major_classes should name each class below {manifest.n_classes} at most once, but got {major}"
        )


def _check_samples(manifest: StreamManifest) -> None:
    if len(manifest.labels) != len(manifest.order):
        raise ValueError(f"labels should be as many as order, {len(manifest.order)}, but got {len(manifest.labels)}")
    as_labels(manifest.labels, manifest.n_classes)
    used = np.concatenate([manifest.order, manifest.holdout])
    if used.size and used.min() < 0:
        raise ValueError(f"order and holdout should hold indices from 0, but got {used.min()}")
    values, times = np.unique(used, return_counts=True)
    if (times > 1).any():
        raise ValueError(f"order and holdout should name each sample once, but sample {values[times > 1][0]} twice")

"""The stream manifest: which sample arrives when, with which (possibly wrong) label; written, read, hashed.

True labels are not in it. They come from the data source, and only the metrics ask for them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

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
        values = _read_fields(Path(path))
        stored_hash = values.pop("content_hash", None)
        try:
            manifest = cls(**values)
        except ValueError as error:
            raise ManifestError(f"{path}: {error}") from error
        if manifest.content_hash != stored_hash:
            raise ManifestError(f"{path}: it was changed after it was written: content hash {manifest.content_hash}")
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


def _read_fields(path: Path) -> dict[str, Any]:
    """The fields of a manifest file, each checked against its type; a `ManifestError` names the file and the field."""
    try:
        content = read_json(path)
    except DataError as error:
        raise ManifestError(str(error)) from error
    if not isinstance(content, dict) or "format" not in content:
        raise ManifestError(f"{path}: not a stream manifest, as `puridiver stream make` writes it: it names no format")
    hints = {**get_type_hints(StreamManifest), "content_hash": str}
    missing, unknown = sorted(hints.keys() - content.keys() - UNSET.keys()), sorted(content.keys() - hints.keys())
    if missing or unknown:
        raise ManifestError(f"{path}: fields missing: {missing or 'none'}; fields unknown: {unknown or 'none'}")
    try:
        return {name: _of_json(name, hints[name], value) for name, value in content.items()}
    except ValueError as error:
        raise ManifestError(f"{path}: {error}") from error


def _of_json(name: str, hint: Any, value: Any) -> Any:
    """A JSON value as its type hint has it; a ValueError for another type, or a number beyond 64 bits."""
    # A bool is an int to isinstance; nan and infinity fail the comparison.
    if hint in (int, float) and type(value) in (int, hint) and -(1 << 63) < value < 1 << 63:
        return hint(value)
    if hint is str and isinstance(value, str):
        return value
    if hint == IntArray:
        return np.array(_of_json(name, tuple[int, ...], value), dtype=np.int64)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is UnionType:  # X | None
        return None if value is None else _of_json(name, inner[0], value)
    if origin is tuple and isinstance(value, list):
        return tuple(_of_json(name, inner[0], item) for item in value)
    if origin is dict and isinstance(value, dict) and all(key.isdecimal() and len(key) < 10 for key in value):
        return {int(key): _of_json(name, inner[1], item) for key, item in value.items()}
    shown = "a huge number" if type(value) is int and abs(value) >= 1 << 63 else repr(value)[:60]
    raise ValueError(f"{name} should be {getattr(hint, '__name__', 'list')}, but got {shown}")


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
        raise ValueError(f"format should be {FORMAT}, but got {manifest.format}")
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
    ends, n_classes = manifest.task_ends, manifest.n_classes
    if manifest.n_tasks < 1 or {len(ends), len(manifest.major_classes)} != {manifest.n_tasks}:
        raise ValueError(
            f"task_ends and major_classes should have n_tasks = {manifest.n_tasks} (at least 1) entries, "
            f"but got {len(ends)} and {len(manifest.major_classes)}"
        )
    if list(ends) != sorted(ends) or ends[0] < 0 or ends[-1] != len(manifest.order):
        raise ValueError(f"task_ends should rise to {len(manifest.order)}, the length of order, but got {ends}")
    major = [c for group in manifest.major_classes for c in group]
    if len(set(major)) != len(major) or not set(major) <= set(range(n_classes)):
        raise ValueError(f"major_classes should name each class below {n_classes} at most once, but got {major}")


def _check_samples(manifest: StreamManifest) -> None:
    if len(manifest.labels) != len(manifest.order):
        raise ValueError(f"labels should be as many as order, {len(manifest.order)}, but got {len(manifest.labels)}")
    as_labels(manifest.labels, manifest.n_classes)
    values, times = np.unique(np.concatenate([manifest.order, manifest.holdout]), return_counts=True)
    if len(values) and (values[0] < 0 or times.max() > 1):
        wrong = values[0] if values[0] < 0 else values[times > 1][0]
        raise ValueError(f"order and holdout should name each sample, from 0, once, but got {wrong} wrongly")

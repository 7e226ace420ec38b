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
from typing import Any, Self, get_args, get_origin, get_type_hints

import numpy as np

from puridiver.data.base import UNKNOWN, DataSource
from puridiver.errors import DataError, ManifestError
from puridiver.files import read_json, write_atomically
from puridiver.streams.checks import IntArray, as_labels, check_choice, check_share
from puridiver.streams.noise import Matrix, check_class_map, noise_kind

FORMAT = 1
CUSTOM = "custom"  # order and labels as somebody gave them
KINDS = ("blurry", "disjoint", "time", "official", CUSTOM)
CUTS = ("given", "true")
BALANCED = 1.0  # imbalance of a stream that is not long-tailed
UNSET: dict[str, Any] = {"noise_matrix": None, "imbalance": BALANCED}  # not written while they have these values


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamManifest:
    """A whole stream, ready to be replayed bit for bit."""

    source: str
    source_fingerprint: str
    n_classes: int
    class_names: tuple[str, ...]
    kind: str  # how tasks were cut: one of KINDS; "official" is published, "custom" an order of one's own
    seed: int
    n_tasks: int
    minor_share: float = 0.0
    cut_by: str = "given"  # tasks are cut by the given or by the true labels
    noise: str
    noise_rate: float = 0.0  # the rate asked for; 0 where the kind has none
    noise_map: dict[int, int] | None = None  # of asymmetric noise
    realised_noise: float | None  # the share of wrong labels among those whose true label is known, None without any
    task_ends: tuple[int, ...]  # for each task, how many samples have arrived when it ends
    major_classes: tuple[tuple[int, ...], ...]  # for each task, class ids
    holdout: IntArray  # indices of train images that stay out of the stream, for validation
    order: IntArray  # for each arrival, its index into the train images
    labels: IntArray  # for each arrival, its given label
    format: int = FORMAT  # of the file
    noise_matrix: Matrix | None = None  # of the noise "matrix:HASH": row the true class, column the given one
    imbalance: float = BALANCED  # the rarest class's share of the most frequent one's samples

    def __post_init__(self) -> None:
        n_classes, n_tasks, n_order = self.n_classes, self.n_tasks, len(self.order)
        noise_kind(self.noise).check(self.noise, self.noise_matrix, n_classes)
        ends, major = [0, *self.task_ends], [label for group in self.major_classes for label in group]
        major_fine = len(set(major)) == len(major) and all(0 <= label < n_classes for label in major)
        samples = np.concatenate([self.order, self.holdout])
        samples_fine = len(np.unique(samples)) == len(samples) and samples.min(initial=0) >= 0
        for name, fine, wanted, got in (
            ("format", self.format == FORMAT, FORMAT, self.format),
            ("seed", self.seed >= 0, "at least 0", self.seed),
            ("noise_rate", noise_kind(self.noise).has_rate or not self.noise_rate, "0 here", self.noise_rate),
            ("realised_noise", 0 <= (self.realised_noise or 0) <= 1, "from 0 to 1", self.realised_noise),
            ("imbalance", 0 < self.imbalance <= 1, "above 0 and at most 1", self.imbalance),
            ("class_names", len(self.class_names) == n_classes, f"{n_classes} names", len(self.class_names)),
            ("task_ends", len(ends) == n_tasks + 1 > 1, f"one for each of {n_tasks} tasks", self.task_ends),
            ("task_ends", ends == sorted(ends) and ends[-1] == n_order, f"rising to {n_order}", self.task_ends),
            ("major_classes", len(self.major_classes) == n_tasks, f"{n_tasks} groups", len(self.major_classes)),
            ("major_classes", major_fine, f"each class below {n_classes} at most once", major),
            ("labels", len(self.labels) == n_order, f"as many as order, {n_order}", len(self.labels)),
            ("order and holdout", samples_fine, "each sample, from 0, at most once", "others"),
        ):
            if not fine:
                raise ValueError(f"{name} should be {wanted}, but got {got}")
        check_choice("kind", self.kind, KINDS)
        check_choice("cut_by", self.cut_by, CUTS)
        check_share("minor_share", self.minor_share)
        check_share("noise_rate", self.noise_rate)
        check_class_map(self.noise_map or {}, n_classes)
        as_labels(self.labels, n_classes)
        for name in ("holdout", "order", "labels"):
            frozen = np.array(getattr(self, name), dtype=np.int64)
            frozen.setflags(write=False)
            object.__setattr__(self, name, frozen)

    @classmethod
    def of(cls, source: DataSource, order: IntArray, labels: IntArray, **others: Any) -> Self:
        """The manifest of a stream of this data; `others` are the fields that do not follow from the data."""
        names, true = tuple(source.class_names), source.train.true_labels.numpy()[order]
        return cls(
            source=source.name, source_fingerprint=source.fingerprint, n_classes=len(names), class_names=names,
            realised_noise=realised_noise(labels, true), order=order, labels=labels, **others,
        )  # fmt: skip

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
        values = {name: value for name, value in values.items() if name not in UNSET or value != UNSET[name]}
        if self.noise_map is not None:
            values["noise_map"] = {str(key): item for key, item in sorted(self.noise_map.items())}
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}

    def task_slice(self, task: int) -> slice:
        """The arrivals of one task."""
        if not 0 <= task < self.n_tasks:
            raise ValueError(f"task should be from 0 to {self.n_tasks - 1}, but got {task}")
        return slice(self.task_ends[task - 1] if task else 0, self.task_ends[task])

    def counts(self) -> IntArray:
        """How many samples of each given label arrive in each task; (classes, tasks)."""
        parts = np.split(self.labels, self.task_ends[:-1])
        return np.stack([np.bincount(part, minlength=self.n_classes) for part in parts], axis=1)

    def save(self, path: Path | str) -> None:
        """Write JSON, one field a line; an existing file is replaced only once the new one is complete."""
        content = {**self.to_dict(), "content_hash": self.content_hash}
        lines = (f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in content.items())
        write_atomically(Path(path), ("{\n" + ",\n".join(lines) + "\n}\n").encode())

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read and check a manifest; a ManifestError names the file and the field that is wrong."""
        try:
            content = read_json(Path(path))
            if not isinstance(content, dict) or "format" not in content:
                raise ValueError("not a stream manifest, as `puridiver stream make` writes it: it names no format")
            hints = {**get_type_hints(cls), "content_hash": str}
            if wrong := hints.keys() - UNSET.keys() ^ content.keys() - UNSET.keys():
                raise ValueError(f"fields missing or unknown: {', '.join(sorted(wrong))}")
            values = {name: _of_json(name, hints[name], value) for name, value in content.items()}
            stored_hash = values.pop("content_hash")
            manifest = cls(**values)
        except DataError as error:
            raise ManifestError(str(error)) from error
        except ValueError as error:
            raise ManifestError(f"{path}: {error}") from error
        if manifest.content_hash != stored_hash:
            raise ManifestError(f"{path}: it was changed after it was written: content hash {manifest.content_hash}")
        return manifest


def realised_noise(given: IntArray, true: IntArray) -> float | None:
    """The share of wrong labels among those whose true label is known; None without any."""
    known = true != UNKNOWN
    return float(np.mean(given[known] != true[known])) if known.any() else None


def _of_json(name: str, hint: Any, value: Any) -> Any:
    """A JSON value as its type hint has it; a ValueError for another type, or a number beyond 64 bits."""
    origin, inner = get_origin(hint), get_args(hint)
    # A bool is an int to isinstance; nan and infinity fail the comparison.
    if hint in (int, float) and type(value) in (int, hint) and abs(value) < 1 << 63:
        return hint(value)
    if hint is str and isinstance(value, str):
        return value
    if hint == IntArray:
        return np.array(_of_json(name, tuple[int, ...], value), dtype=np.int64)
    if origin is UnionType:  # X | None
        return None if value is None else _of_json(name, inner[0], value)
    if origin is tuple and isinstance(value, list):
        return tuple(_of_json(name, inner[0], item) for item in value)
    if origin is dict and isinstance(value, dict) and all(key.isdecimal() and len(key) < 10 for key in value):
        return {int(key): _of_json(name, inner[1], item) for key, item in value.items()}
    raise ValueError(f"{name} should be {getattr(hint, '__name__', hint)}, but got {repr(value)[:60]}")

"""The stream manifest: which sample arrives when, with which (possibly wrong) label; written, read, hashed.

True labels are not in it. They come from the data source, and only the metrics ask for them.
"""

import hashlib
import json
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from puridiver.data.base import UNKNOWN, DataSource
from puridiver.errors import DataError, ManifestError, first_line
from puridiver.files import read_json, write_atomically
from puridiver.streams.checks import IntArray, as_ids, require
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
        noise, n_classes, n_tasks, n_order = noise_kind(self.noise), self.n_classes, self.n_tasks, len(self.order)
        noise.check(self.noise, self.noise_matrix, n_classes)
        ends, share = [0, *self.task_ends], "at least 0 and below 1"
        major = [label for group in self.major_classes for label in group]
        samples = np.concatenate([self.order, self.holdout])
        require(self.kind in KINDS, "kind", f"one of {', '.join(KINDS)}", self.kind)
        require(self.cut_by in CUTS, "cut_by", f"one of {', '.join(CUTS)}", self.cut_by)
        require(self.seed >= 0, "seed", "at least 0", self.seed)
        require(0 <= self.minor_share < 1, "minor_share", share, self.minor_share)
        require(0 <= self.noise_rate < 1, "noise_rate", share, self.noise_rate)
        require(noise.has_rate or not self.noise_rate, "noise_rate", f"0 for noise {self.noise}", self.noise_rate)
        require(0 <= (self.realised_noise or 0) <= 1, "realised_noise", "from 0 to 1", self.realised_noise)
        require(0 < self.imbalance <= 1, "imbalance", "above 0 and at most 1", self.imbalance)
        require(len(self.class_names) == n_classes, "class_names", f"{n_classes} names", len(self.class_names))
        require(len(ends) == n_tasks + 1 > 1, "task_ends", f"one for each of {n_tasks} tasks", self.task_ends)
        require(ends == sorted(ends), "task_ends", "rising", self.task_ends)
        require(ends[-1] == n_order == len(self.labels), "task_ends and labels", f"for {n_order} arrivals", ends[-1])
        require(len(self.major_classes) == n_tasks, "major_classes", f"{n_tasks} groups", len(self.major_classes))
        require(len({*major}) == len(major), "major_classes", "each class at most once", major)
        as_ids("major_classes", major, n_classes)
        as_ids("labels", self.labels, n_classes)
        fine = len(np.unique(samples)) == len(samples) and samples.min(initial=0) >= 0
        require(fine, "order and holdout", "each sample at most once, from 0", "others")
        check_class_map(self.noise_map or {}, n_classes)
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
        arrays = {name: value.tolist() for name, value in values.items() if isinstance(value, np.ndarray)}
        if self.noise_map is not None:
            values["noise_map"] = {str(key): item for key, item in sorted(self.noise_map.items())}
        values |= arrays
        return {name: value for name, value in values.items() if name not in UNSET or value != UNSET[name]}

    def task_slice(self, task: int) -> slice:
        """The arrivals of one task."""
        require(0 <= task < self.n_tasks, "task", f"from 0 to {self.n_tasks - 1}", task)
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
            if not isinstance(content, dict) or content.get("format") != FORMAT:
                raise ValueError(f"format should be {FORMAT}, as `puridiver stream make` writes it")
            stored_hash = content.pop("content_hash", None)
            if wrong := {field.name for field in fields(cls)} - UNSET.keys() ^ content.keys() - UNSET.keys():
                raise ValueError(f"fields missing or unknown: {', '.join(sorted(wrong))}")
            manifest = cls(**{name: _of_json(name, value) for name, value in content.items()})
        except DataError as error:
            raise ManifestError(str(error)) from error
        except (ArithmeticError, AttributeError, TypeError, ValueError) as error:  # any value may be of any type
            raise ManifestError(f"{path}: {first_line(error)}") from error
        if manifest.content_hash != stored_hash:
            raise ManifestError(f"{path}: it was changed after it was written: content hash {manifest.content_hash}")
        return manifest


def realised_noise(given: IntArray, true: IntArray) -> float | None:
    """The share of wrong labels among those whose true label is known; None without any."""
    known = true != UNKNOWN
    return float(np.mean(given[known] != true[known])) if known.any() else None


def _of_json(name: str, value: Any) -> Any:
    """A JSON value of a manifest as its field has it: lists as tuples, keys of the noise map as numbers."""
    if name == "noise_map" and value is not None:
        return {int(key): label for key, label in value.items()}
    return tuple(_of_json("", item) for item in value) if isinstance(value, list) else value

"""The stream manifest: which sample arrives when, with which (possibly wrong) label; written, read, hashed.

`Stream` is what a learner sees of it. Only the metrics ask for the true labels, which come from the data source.
"""

import hashlib
import itertools
import json
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from puridiver.data.base import UNKNOWN, DataSource
from puridiver.errors import DataError, ManifestError
from puridiver.files import check_json, read_json, write_atomically
from puridiver.streams.checks import IntArray, as_ids, require
from puridiver.streams.noise import Matrix

FORMAT = 1
ARRAYS = ("holdout", "order", "labels")
UNWRITTEN = ("noise_matrix", "imbalance", "disjoint_share")  # not in the file, nor in the hash, where there is none
# What a file holds: see `check_json`.
SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("source", "source_fingerprint", "kind", "cut_by", "noise", "content_hash"), str),
    **dict.fromkeys(("format", "n_classes", "seed", "n_tasks"), int),
    "holdout": [int, None], "order": [int, None], "labels": [int, None], "task_ends": [int, None],
    **dict.fromkeys(("minor_share", "noise_rate"), float),
    **dict.fromkeys(("realised_noise", "imbalance", "disjoint_share"), (float, None)),
    "class_names": [str, None], "major_classes": [[int, None], None], "noise_map": ({str: int}, None),
    "noise_matrix": ([[float, None], None], None),
}  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamManifest:
    """A whole stream, ready to be replayed bit for bit."""

    source: str
    source_fingerprint: str
    n_classes: int
    class_names: tuple[str, ...]
    kind: str  # how tasks were cut: "blurry", "disjoint", "i-blurry", "time", "official", "custom" (by hand)
    seed: int
    n_tasks: int
    minor_share: float = 0.0
    cut_by: str = "given"  # tasks are cut by the given labels
    noise: str
    noise_rate: float = 0.0  # the rate asked for; 0 where the kind has none
    noise_map: dict[int, int] | None = None  # of asymmetric noise
    realised_noise: float | None  # the share of wrong labels among those of which it is known, None without any
    task_ends: tuple[int, ...]  # for each task, how many samples have arrived when it ends
    major_classes: tuple[tuple[int, ...], ...]  # for each task, class ids
    holdout: IntArray  # indices of train images that stay out of the stream, for validation
    order: IntArray  # for each arrival, its index into the train images
    labels: IntArray  # for each arrival, its given label
    format: int = FORMAT  # of the file
    noise_matrix: Matrix | None = None  # of the noise "matrix:HASH": row the true class, column the given one
    imbalance: float | None = None  # the rarest class's share of the most frequent one's samples
    disjoint_share: float | None = None  # of the classes, in an i-Blurry stream

    def __post_init__(self) -> None:
        for name in ARRAYS:
            frozen = np.array(getattr(self, name), dtype=np.int64)
            frozen.setflags(write=False)
            object.__setattr__(self, name, frozen)
        ends, samples = [0, *self.task_ends], np.concatenate([self.order, self.holdout])
        fine = ends == sorted(ends) and ends[-1] == len(self.order) == len(self.labels)
        require(fine, "task_ends", f"rising to {len(self.order)}, the arrivals, each with a label", self.task_ends)
        fine = len(self.task_ends) == len(self.major_classes) == self.n_tasks > 0
        require(fine, "task_ends and major_classes", f"one for each of {self.n_tasks} tasks", "others")
        fine = len(np.unique(samples)) == len(samples) and samples.min(initial=0) >= 0
        require(fine, "order and holdout", "each sample at most once, from 0", "others")
        major, swaps = itertools.chain(*self.major_classes), self.noise_map or {}
        as_ids("labels, major_classes and noise_map", [*self.labels, *major, *swaps, *swaps.values()], self.n_classes)
        require(len(self.class_names) == self.n_classes, "class_names", f"{self.n_classes}", len(self.class_names))

    @classmethod
    def of(cls, source: DataSource, order: IntArray, labels: IntArray, **others: Any) -> Self:
        """The manifest of a stream of this data; `others` are the fields that do not follow from the data."""
        require(len(labels) == len(order), "labels", f"one for each of {len(order)} arrivals", len(labels))
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
        """SHA-256 of every field, as canonical JSON."""
        return _hash(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Every field as JSON can hold it, without the hash."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values |= {name: values[name].tolist() for name in ARRAYS}
        if self.noise_map is not None:
            values["noise_map"] = {str(key): item for key, item in sorted(self.noise_map.items())}
        return {name: value for name, value in values.items() if value is not None or name not in UNWRITTEN}

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
        """Read a manifest; a ManifestError names a file that is none, or that was changed."""
        try:
            content = check_json(read_json(Path(path)), SCHEMA, str(path))
            if content.pop("content_hash") != _hash(content):
                raise ValueError("it was changed after it was written: its content hash does not match")
            if content.get("noise_map") is not None:
                content["noise_map"] = {int(key): label for key, label in content["noise_map"].items()}
            return cls(**{name: _tuples(value) for name, value in content.items()})
        except DataError as error:
            raise ManifestError(f"{error}; `puridiver stream make` writes streams") from error
        except (RecursionError, TypeError, ValueError) as error:
            raise ManifestError(f"{path}: {error}") from error


def _hash(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def realised_noise(given: IntArray, true: IntArray) -> float | None:
    """The share of wrong labels among those of which it is known; None without any."""
    known = true != UNKNOWN
    return float(np.mean(given[known] != true[known])) if known.any() else None


class Batch(NamedTuple):
    """Samples that arrive together."""

    images: Tensor  # uint8 (B, H, W, C), or vectors, float32 (B, d)
    labels: Tensor  # int64, (B,): given labels, possibly wrong
    names: list[str] | None = None  # where each image came from, if the data tell it


class Stream:
    """The images of a source with the labels and the order of a manifest. It holds no true labels."""

    def __init__(self, source: DataSource, manifest: StreamManifest) -> None:
        check_belongs(source, manifest)
        self.manifest, self.n_tasks = manifest, manifest.n_tasks
        self._images, self._names = source.train.images, source.train.names
        self._order, self._labels = torch.tensor(manifest.order), torch.tensor(manifest.labels)

    def __len__(self) -> int:
        return len(self._order)

    def read(self, start: int, stop: int) -> Batch:
        """The arrivals from `start` to before `stop`. Images are read now: a large set stays in its file."""
        rows = self._order[start:stop]
        names = None if self._names is None else [self._names[row] for row in rows.tolist()]
        return Batch(self._images[rows], self._labels[start:stop], names)


class TrueLabels(NamedTuple):
    """Labels of each arrival, for the metrics and never for a learner; (N,) each, on the CPU."""

    true: Tensor  # class ids, or UNKNOWN or WRONG
    given: Tensor  # class ids, as they arrived

    @classmethod
    def of(cls, source: DataSource, manifest: StreamManifest) -> "TrueLabels":
        """The true labels of a stream."""
        check_belongs(source, manifest)
        rows = torch.tensor(manifest.order)
        return cls(source.train.true_labels[rows], torch.tensor(manifest.labels))


def check_belongs(source: DataSource, manifest: StreamManifest) -> None:
    """Raise a ManifestError if the manifest was made for other data."""
    if manifest.source_fingerprint != source.fingerprint:
        raise ManifestError(
            f"the manifest belongs to {manifest.source!r}, but {source.name!r} is other data or was read otherwise: "
            "say the same --data, --image-size, --test-share, --bad-files and --trust-labels as then"
        )
    if max(manifest.order.max(initial=-1), manifest.holdout.max(initial=-1)) >= len(source.train):
        raise ManifestError(f"order and holdout should name samples below {len(source.train)}, as many as there are")

"""What a memory held at one moment and what the learner thought of it: one safetensors file that a report can show."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver.errors import DataError
from puridiver.learner.learner import Learner
from puridiver.trainers import SET_NAMES

FORMAT = "puridiver memory 1"
LARGEST_SIDE = 64  # px: larger images are shrunk, so that the file stays small beside the run


@dataclass(frozen=True)
class MemorySnapshot:
    """The memory's samples, a row each. Labels are class ids; their names are in the stream's manifest."""

    images: np.ndarray  # uint8 (N, H, W, C)
    arrivals: np.ndarray  # int64 (N,)
    given: np.ndarray  # int64 (N,)
    suggested: np.ndarray  # int64 (N,): what the learner would call it
    true: np.ndarray  # int64 (N,); UNKNOWN where there is no true label
    p_correct: np.ndarray  # float32 (N,): probability that the given label is right
    sets: np.ndarray  # uint8 (N,): 0 clean, 1 relabel, 2 unlabelled
    names: list[str] | None = None  # N of them, where each came from, if that was told

    def __post_init__(self) -> None:
        lengths = {name: len(value) for name, value in vars(self).items() if value is not None}
        if len(set(lengths.values())) != 1 or self.images.ndim != 4 or self.images.dtype != np.uint8:
            raise ValueError(f"a snapshot should hold uint8 images (N, H, W, C) and N of all else, not {lengths}")

    def __len__(self) -> int:
        return len(self.images)

    @classmethod
    def of(cls, learner: Learner, true: Tensor) -> MemorySnapshot:
        """The memory's images, shrunk if they are large, with the learner's audit and the true label of each."""
        samples, images = learner.memory.samples, learner.memory.samples.images
        audit = {row.arrival: row for row in learner.audit()}
        rows = [audit[arrival] for arrival in samples.arrivals.tolist()]
        ids = {label: i for i, label in enumerate(learner.classes)}
        names = ["" if row.id is None else str(row.id) for row in rows]
        factor = LARGEST_SIDE / max(images.shape[2:])
        if factor < 1 and len(images):
            size = [max(1, round(side * factor)) for side in images.shape[2:]]
            shrunk = [F.interpolate(part.float(), size, mode="area").round() for part in images.split(256)]
            images = torch.cat(shrunk).to(torch.uint8)
        return cls(
            images=images.permute(0, 2, 3, 1).contiguous().cpu().numpy(),
            arrivals=samples.arrivals.cpu().numpy(),
            given=samples.labels.cpu().numpy(),
            suggested=np.array([ids[row.suggested_label] for row in rows], dtype=np.int64),
            true=true.cpu().numpy(),
            p_correct=np.array([row.p_correct for row in rows], dtype=np.float32),
            sets=np.array([SET_NAMES.index(row.set) for row in rows], dtype=np.uint8),
            names=None if all(row.id is None for row in rows) else names,
        )

    def to_bytes(self) -> bytes:
        from safetensors.numpy import save

        named = {} if self.names is None else {"names": json.dumps(self.names)}
        arrays = {name: np.ascontiguousarray(getattr(self, name)) for name in ARRAYS}
        return save(arrays, metadata={"format": FORMAT, **named})

    @classmethod
    def read(cls, path: Path) -> MemorySnapshot:
        """A snapshot file; a `DataError` names one that is damaged or no regular file."""
        from safetensors import SafetensorError, safe_open

        if not path.is_file():
            raise DataError(f"{path} is damaged: it is not a regular file")
        try:
            with safe_open(path, framework="numpy") as file:
                told = file.metadata() or {}
                if told.get("format") != FORMAT:
                    raise DataError(f"{path} should be of the format {FORMAT!r}, but is of {told.get('format')!r}")
                names = json.loads(told["names"]) if "names" in told else None
                return cls(**{name: file.get_tensor(name) for name in ARRAYS}, names=names)
        except (SafetensorError, ValueError, TypeError, RecursionError) as error:
            raise DataError(f"{path} is damaged: {error}") from error


ARRAYS = [field.name for field in fields(MemorySnapshot) if field.name != "names"]

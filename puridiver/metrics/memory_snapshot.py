"""The contents of a memory and the learner's judgement of each sample, as one safetensors file for reports."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from torch import Tensor

from puridiver.data.images import shown
from puridiver.errors import DataError
from puridiver.learner.inputs import channels_first
from puridiver.learner.learner import Learner

LARGEST_SIDE = 64  # px: larger images are shrunk, so that the file stays small beside the run


@dataclass(frozen=True)
class MemorySnapshot:
    """The memory's samples, a row each. Labels are class ids; their names are in the stream's manifest."""

    images: np.ndarray  # uint8 (N, H, W, C); vectors as pictures
    arrivals: np.ndarray  # int64 (N,)
    given: np.ndarray  # int64 (N,)
    suggested: np.ndarray  # int64 (N,): what the learner would call it
    true: np.ndarray  # int64 (N,); UNKNOWN or WRONG where there is no true label
    p_correct: np.ndarray  # float32 (N,): probability that the given label is right
    sets: np.ndarray  # uint8 (N,): 0 clean, 1 relabel, 2 unlabelled
    names: list[str]  # N of them: where each came from; all empty if that was not told

    def __post_init__(self) -> None:
        lengths = {name: len(value) for name, value in vars(self).items()}
        if len(set(lengths.values())) != 1 or self.images.ndim != 4 or self.images.dtype != np.uint8:
            raise ValueError(f"a snapshot should hold uint8 images (N, H, W, C) and N of all else, not {lengths}")

    def __len__(self) -> int:
        return len(self.images)

    @classmethod
    def of(cls, learner: Learner, true: Tensor) -> Self:
        """The memory's images, shrunk if they are large, with the learner's audit and the true label of each."""
        samples, split, ids = learner.memory.samples, learner.split(), learner.held_ids()
        images = channels_first(shown(samples.images)) if samples.images.ndim == 2 else samples.images
        factor = LARGEST_SIDE / max(images.shape[2:])
        if factor < 1 and len(images):
            size = [max(1, round(side * factor)) for side in images.shape[2:]]
            shrunk = [F.interpolate(part.float(), size, mode="area").round() for part in images.split(256)]
            images = torch.cat(shrunk).to(torch.uint8)
        arrays = {
            "images": images.permute(0, 2, 3, 1), "arrivals": samples.arrivals, "given": samples.labels, "true": true,
            "suggested": split.suggested(samples.labels), "p_correct": split.p_clean,
            "sets": split.codes().to(torch.uint8),
        }  # fmt: skip
        names = [str(ids.get(arrival, "")) for arrival in samples.arrivals.tolist()]
        return cls(**{name: value.contiguous().cpu().numpy() for name, value in arrays.items()}, names=names)

    def to_bytes(self) -> bytes:
        arrays = dict(vars(self))
        names = json.dumps(arrays.pop("names"))
        return save(arrays, metadata={"names": names})

    @classmethod
    def read(cls, path: Path) -> Self:
        """A snapshot file; a `DataError` names one that is damaged."""
        try:
            with safe_open(path, framework="numpy") as file:
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
                return cls(**arrays, names=json.loads(file.metadata()["names"]))
        except (SafetensorError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise DataError(f"{path} is damaged: {error}") from error

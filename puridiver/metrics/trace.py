"""What a report needs of the memory beyond figures: each sample's loss, uncertainty, set and image."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver import equations
from puridiver.learner.learner import Learner
from puridiver.metrics.memory_snapshot import LARGEST_SIDE, UNKNOWN, MemorySnapshot
from puridiver.mixture import Mixture
from puridiver.trainers import SET_NAMES


def split_trace(learner: Learner, true: Tensor) -> dict[str, Any]:
    """Losses, uncertainties, sets and both mixtures, a list entry for each memory sample, in the memory's order.

    `right` says (1 or 0) whether the given label is the true one, `guess_right` whether the prediction is; None where
    that is not known.
    """
    split, given = learner.split(), learner.memory.samples.labels.cpu()
    guess = split.p_model.argmax(dim=1).cpu()
    return {
        "arrivals": learner.memory.samples.arrivals.tolist(),
        "losses": _rounded(split.loss),
        "uncertainties": _rounded(equations.uncertainty(split.p_model)),
        "sets": split.codes().tolist(),
        "right": _agreement(given, true),
        "guess_right": _agreement(guess, true),
        "loss_mixture": _parameters(split.loss_mixture),
        "uncertainty_mixture": _parameters(split.uncertainty_mixture),
    }


def memory_snapshot(learner: Learner, true: Tensor) -> MemorySnapshot:
    """The memory's images with the learner's audit and the true label of each."""
    samples = learner.memory.samples
    audit = {row.arrival: row for row in learner.audit()}
    rows = [audit[arrival] for arrival in samples.arrivals.tolist()]
    ids = {label: i for i, label in enumerate(learner.classes)}
    return MemorySnapshot(
        images=_shrunk(samples.images).permute(0, 2, 3, 1).contiguous().cpu().numpy(),
        arrivals=samples.arrivals.cpu().numpy(),
        given=samples.labels.cpu().numpy(),
        suggested=torch.tensor([ids[row.suggested_label] for row in rows], dtype=torch.int64).numpy(),
        true=true.cpu().numpy(),
        p_correct=torch.tensor([row.p_correct for row in rows], dtype=torch.float32).numpy(),
        sets=torch.tensor([SET_NAMES.index(row.set) for row in rows], dtype=torch.uint8).numpy(),
        names=None if all(row.id is None for row in rows) else ["" if row.id is None else str(row.id) for row in rows],
    )


def _rounded(values: Tensor) -> list[float]:
    """Four digits after the point: enough for a histogram, and a third of the size on disk."""
    return [round(value, 4) for value in values.tolist()]


def _agreement(labels: Tensor, true: Tensor) -> list[int | None]:
    pairs = zip((labels == true).tolist(), (true == UNKNOWN).tolist(), strict=True)
    return [None if unknown else int(same) for same, unknown in pairs]


def _parameters(mixture: Mixture) -> dict[str, Any]:
    names = ("weights", "means", "variances", "offset", "span")
    return {name: getattr(mixture, name).tolist() for name in names}


def _shrunk(images: Tensor) -> Tensor:
    """uint8 (N, C, H, W) with no side above LARGEST_SIDE."""
    height, width = images.shape[2:]
    factor = LARGEST_SIDE / max(height, width)
    if factor >= 1 or not len(images):
        return images
    size = (max(1, round(height * factor)), max(1, round(width * factor)))
    parts = [F.interpolate(part.float(), size, mode="area").round().to(torch.uint8) for part in images.split(256)]
    return torch.cat(parts)

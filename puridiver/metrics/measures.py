"""Measurements at one moment: predictions, the memory and its division, compared with the true labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver import equations
from puridiver.learner.learner import Learner
from puridiver.metrics.memory_snapshot import LARGEST_SIDE, UNKNOWN, MemorySnapshot
from puridiver.trainers import SET_NAMES, Sets


def confusion_matrix(predicted: Tensor, true: Tensor, n_classes: int) -> Tensor:
    """Counts (C, C): row the true class, column the predicted one."""
    return (true * n_classes + predicted).bincount(minlength=n_classes**2).view(n_classes, n_classes)


def accuracy(confusion: Tensor, classes: Sequence[int] | None = None) -> float:
    """Share of right predictions on the images of some classes, or of all; nan without any image."""
    rows = torch.arange(len(confusion)) if classes is None else torch.tensor(list(classes), dtype=torch.int64)
    total = int(confusion[rows].sum())
    return int(confusion[rows, rows].sum()) / total if total else float("nan")


def per_class(labels: Tensor, n_classes: int) -> list[int] | None:
    """How many samples each class has; None unless all labels are known."""
    return None if (labels == UNKNOWN).any() else labels.bincount(minlength=n_classes).tolist()


def memory_metrics(given: Tensor, true: Tensor, n_classes: int, features: Tensor | None = None) -> dict[str, Any]:
    """Size, purity, class balance and, with the samples' features, diversity (Eq. 12).

    Purity is that of the samples whose true label is known (`memory_known`, where not all are), None without any.
    """
    known = true != UNKNOWN
    measurable = bool(known.any()) or not len(true)
    found: dict[str, Any] = {
        "memory_size": len(given),
        "memory_purity": equations.purity(given[known], true[known]) if measurable else None,
        "memory_per_class": per_class(given, n_classes),
        "memory_per_true_class": per_class(true, n_classes),
    }
    if not known.all():
        found["memory_known"] = int(known.sum())
    if features is not None:
        found["memory_diversity"] = equations.diversity(features, true, n_classes)
    return found


def split_metrics(sets: Sets, given: Tensor, true: Tensor) -> dict[str, Any]:
    """Sizes of C, R and U, and how right each is, of samples whose true label is known; None without any.

    C: share whose given label is right. R: share whose predicted label is right. U: share whose given label is wrong.
    """
    known, right = true != UNKNOWN, given == true
    judged = (right, sets.guesses == true, ~right)
    found: dict[str, Any] = {f"{name}_size": int((sets.codes == code).sum()) for code, name in enumerate(SET_NAMES)}
    for code, name in enumerate(SET_NAMES):
        members = judged[code][(sets.codes == code) & known]
        found[f"{name}_precision"] = float(members.double().mean()) if len(members) else None
    return found


def split_trace(learner: Learner, true: Tensor) -> dict[str, Any]:
    """Losses, uncertainties, sets and both mixtures, an entry for each memory sample, in the memory's order.

    `right` says (1 or 0) whether the given label is the true one, `guess_right` whether the prediction is; None where
    that is not known. Four digits are enough for a histogram, at a third of the size on disk.
    """
    split, samples = learner.split(), learner.memory.samples
    mixtures = {"loss_mixture": split.loss_mixture, "uncertainty_mixture": split.uncertainty_mixture}
    names = ("weights", "means", "variances", "offset", "span")

    def agreement(labels: Tensor) -> list[int | None]:
        pairs = zip((labels == true).tolist(), (true == UNKNOWN).tolist(), strict=True)
        return [None if unknown else int(same) for same, unknown in pairs]

    return {
        "arrivals": samples.arrivals.tolist(),
        "losses": [round(value, 4) for value in split.loss.tolist()],
        "uncertainties": [round(value, 4) for value in equations.uncertainty(split.p_model).tolist()],
        "sets": split.codes().tolist(),
        "right": agreement(samples.labels.cpu()),
        "guess_right": agreement(split.p_model.argmax(dim=1).cpu()),
        **{key: {name: getattr(found, name).tolist() for name in names} for key, found in mixtures.items()},
    }


def take_snapshot(learner: Learner, true: Tensor) -> MemorySnapshot:
    """The memory's images, shrunk if they are large, with the learner's audit and the true label of each."""
    samples, images = learner.memory.samples, learner.memory.samples.images
    audit = {row.arrival: row for row in learner.audit()}
    rows = [audit[arrival] for arrival in samples.arrivals.tolist()]
    ids = {label: i for i, label in enumerate(learner.classes)}
    factor = LARGEST_SIDE / max(images.shape[2:])
    if factor < 1 and len(images):
        size = [max(1, round(side * factor)) for side in images.shape[2:]]
        parts = images.split(256)
        images = torch.cat([F.interpolate(part.float(), size, mode="area").round().to(torch.uint8) for part in parts])
    return MemorySnapshot(
        images=images.permute(0, 2, 3, 1).contiguous().cpu().numpy(),
        arrivals=samples.arrivals.cpu().numpy(),
        given=samples.labels.cpu().numpy(),
        suggested=torch.tensor([ids[row.suggested_label] for row in rows], dtype=torch.int64).numpy(),
        true=true.cpu().numpy(),
        p_correct=torch.tensor([row.p_correct for row in rows], dtype=torch.float32).numpy(),
        sets=torch.tensor([SET_NAMES.index(row.set) for row in rows], dtype=torch.uint8).numpy(),
        names=None if all(row.id is None for row in rows) else ["" if row.id is None else str(row.id) for row in rows],
    )

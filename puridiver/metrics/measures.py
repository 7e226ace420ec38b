"""Measurements at one moment: predictions, the memory and its division, compared with the true labels."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from puridiver import equations
from puridiver.data.base import UNKNOWN, WRONG
from puridiver.trainers import SET_NAMES, Sets
from puridiver.trainers.split import Split


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
    return None if (labels < 0).any() else labels.bincount(minlength=n_classes).tolist()


def memory_metrics(given: Tensor, true: Tensor, n_classes: int, features: Tensor | None = None) -> dict[str, Any]:
    """Size, purity, class balance and, with the samples' features, diversity (Eq. 12).

    Purity is that of the samples of which is known whether their label is right, None without any.
    """
    known = true != UNKNOWN
    found: dict[str, Any] = {
        "memory_size": len(given),
        "memory_purity": equations.purity(given[known], true[known]) if known.any() or not len(true) else None,
        "memory_per_class": per_class(given, n_classes),
        "memory_per_true_class": per_class(true, n_classes),
    }
    if features is not None:
        found["memory_diversity"] = equations.diversity(features, true, n_classes)
    return found


def split_metrics(sets: Sets, given: Tensor, true: Tensor) -> dict[str, Any]:
    """Sizes of C, R and U, and how right each is, of samples of which this is known; None without any.

    C: share whose given label is right. R: share whose predicted label is right; None if a true label in R is WRONG,
    since the samples with right labels alone would flatter it. U: share whose given label is wrong.
    """
    known, right, found = true != UNKNOWN, given == true, dict[str, Any]()
    for code, (name, judged) in enumerate(zip(SET_NAMES, (right, sets.guesses == true, ~right), strict=True)):
        members = sets.codes == code
        known_members = judged[members & known]
        found[f"{name}_size"] = int(members.sum())
        told = len(known_members) and not (name == "relabel" and (true[members] == WRONG).any())
        found[f"{name}_precision"] = float(known_members.double().mean()) if told else None
    return found


def split_trace(split: Split, given: Tensor, true: Tensor) -> dict[str, Any]:
    """Losses, uncertainties, sets and both mixtures, an entry for each memory sample, in the memory's order.

    `right` says (1 or 0) whether the given label is the true one, `guess_right` whether the prediction is; None where
    that is not known. Four digits are enough for a histogram, at a third of the size on disk.
    """
    found: dict[str, Any] = {"sets": split.codes().tolist()}
    for name, values in {"losses": split.loss, "uncertainties": equations.uncertainty(split.p_model)}.items():
        found[name] = [round(value, 4) for value in values.tolist()]
    for name, labels in {"right": given, "guess_right": split.p_model.argmax(dim=1).cpu()}.items():
        not_told = true < 0 if name == "guess_right" else true == UNKNOWN
        agree = torch.where(not_told, UNKNOWN, (labels == true).long()).tolist()
        found[name] = [None if same == UNKNOWN else same for same in agree]
    for name, mixture in {"loss_mixture": split.loss_mixture, "uncertainty_mixture": split.uncertainty_mixture}.items():
        parts = ("weights", "means", "variances", "offset", "span")
        found[name] = {part: getattr(mixture, part).tolist() for part in parts}
    return found

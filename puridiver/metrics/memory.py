"""What the memory holds and how right the trainer's division of it is, by the true labels."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from puridiver import equations
from puridiver.trainers import Split


def memory_metrics(given: Tensor, true: Tensor, n_classes: int, features: Tensor | None = None) -> dict[str, Any]:
    """Size, purity, class balance and, with the samples' features, diversity (Eq. 12)."""
    found: dict[str, Any] = {
        "memory_size": len(given),
        "memory_purity": equations.purity(given, true),
        "memory_per_class": given.bincount(minlength=n_classes).tolist(),
        "memory_per_true_class": true.bincount(minlength=n_classes).tolist(),
    }
    if features is not None:
        found["memory_diversity"] = equations.diversity(features, true, n_classes)
    return found


def split_metrics(split: Split, given: Tensor, true: Tensor) -> dict[str, Any]:
    """Sizes of C, R and U, and how right each is.

    C: share whose given label is right. R: share whose predicted label is right. U: share whose given label is
    wrong, so that it was rightly distrusted. None for an empty set.
    """
    right_label = given == true
    right_guess = split.p_model.argmax(dim=1).cpu() == true
    clean, relabel, unlabelled = split.clean.cpu(), split.relabel.cpu(), split.unlabelled.cpu()
    return {
        "clean_size": int(clean.sum()),
        "relabel_size": int(relabel.sum()),
        "unlabelled_size": int(unlabelled.sum()),
        "clean_precision": _share(right_label[clean]),
        "relabel_precision": _share(right_guess[relabel]),
        "unlabelled_precision": _share(~right_label[unlabelled]),
    }


def _share(mask: Tensor) -> float | None:
    return float(mask.double().mean()) if len(mask) else None

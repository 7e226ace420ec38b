"""What the memory holds and how right the trainer's division of it is, by the true labels."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from puridiver import equations
from puridiver.metrics.memory_snapshot import UNKNOWN
from puridiver.trainers import Sets


def memory_metrics(given: Tensor, true: Tensor, n_classes: int, features: Tensor | None = None) -> dict[str, Any]:
    """Size, purity, class balance and, with the samples' features, diversity (Eq. 12).

    Purity is measured on the samples whose true label is known (`memory_known`, where these are not all), and is None
    where there are none of them.
    """
    known = true != UNKNOWN
    measurable = bool(known.any()) or not len(true)
    found: dict[str, Any] = {
        "memory_size": len(given),
        "memory_purity": equations.purity(given[known], true[known]) if measurable else None,
        "memory_per_class": given.bincount(minlength=n_classes).tolist(),
        "memory_per_true_class": per_true_class(true, n_classes),
    }
    if not known.all():
        found["memory_known"] = int(known.sum())
    if features is not None:
        found["memory_diversity"] = equations.diversity(features, true, n_classes)
    return found


def per_true_class(true: Tensor, n_classes: int) -> list[int] | None:
    """How many samples each true class has; None unless all are known."""
    if (true == UNKNOWN).any():
        return None
    return true.bincount(minlength=n_classes).tolist()


def split_metrics(sets: Sets, given: Tensor, true: Tensor) -> dict[str, Any]:
    """Sizes of C, R and U, and how right each is.

    C: share whose given label is right. R: share whose predicted label is right. U: share whose given label is
    wrong, so that it was rightly distrusted. None for a set without a sample whose true label is known.
    """
    right_label, known = given == true, true != UNKNOWN
    right_guess = sets.guesses == true
    clean, relabel, unlabelled = (sets.codes == code for code in range(3))
    return {
        "clean_size": int(clean.sum()),
        "relabel_size": int(relabel.sum()),
        "unlabelled_size": int(unlabelled.sum()),
        "clean_precision": _share(right_label[clean & known]),
        "relabel_precision": _share(right_guess[relabel & known]),
        "unlabelled_precision": _share(~right_label[unlabelled & known]),
    }


def _share(mask: Tensor) -> float | None:
    return float(mask.double().mean()) if len(mask) else None

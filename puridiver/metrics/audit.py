"""How good an audit's ranking is, where the true labels are known: the wrong labels should come first."""

from __future__ import annotations

import numpy as np

# Depths of the list at which precision and recall are told, as multiples of the true number of wrong labels.
DEPTHS = (0.25, 0.5, 1.0, 1.5)


def ranking_quality(p_correct: np.ndarray, wrong: np.ndarray) -> dict[str, float]:
    """Area under the ROC curve, average precision, and precision and recall at several depths of the list.

    `p_correct` (N,) is small where a label is doubted, `wrong` (N,) says whether it is wrong in truth. Depth 1 is a
    list as long as there are wrong labels, where precision and recall are the same.
    """
    n_wrong = int(wrong.sum())
    if not 0 < n_wrong < len(wrong):
        raise ValueError(
            f"a ranking needs right and wrong labels to be judged, but {n_wrong} of {len(wrong)} are wrong"
        )
    from sklearn.metrics import average_precision_score, roc_auc_score

    found = {
        "auc": float(roc_auc_score(wrong, -p_correct)),
        "average_precision": float(average_precision_score(wrong, -p_correct)),
    }
    ranked = wrong[np.argsort(p_correct, kind="stable")]
    for depth in DEPTHS:
        length = min(len(wrong), max(1, round(depth * n_wrong)))
        hits = int(ranked[:length].sum())
        found[f"precision_at_{depth:g}"] = hits / length
        found[f"recall_at_{depth:g}"] = hits / n_wrong
    return found


def list_quality(chosen: np.ndarray, wrong: np.ndarray) -> dict[str, float]:
    """Precision and recall of the samples that an audit calls suspects (mask); an empty list has precision 0."""
    hits = int((chosen & wrong).sum())
    return {
        "suspects": int(chosen.sum()),
        "suspects_precision": hits / max(int(chosen.sum()), 1),
        "suspects_recall": hits / max(int(wrong.sum()), 1),
    }

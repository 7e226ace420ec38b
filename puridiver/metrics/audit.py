"""How good an audit's ranking is, where the true labels are known: the wrong labels should come first."""

import numpy as np

DEPTHS = (0.25, 0.5, 1.0, 1.5)  # of the list, as multiples of the true number of wrong labels


def ranking_quality(p_correct: np.ndarray, wrong: np.ndarray) -> dict[str, float]:
    """Area under the ROC curve, average precision, and precision and recall at several depths of the list.

    `p_correct` (N,) is small where a label is doubted, `wrong` (N,) says whether it is wrong in truth.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    n_wrong = int(wrong.sum())
    if not 0 < n_wrong < len(wrong):
        raise ValueError(f"a ranking needs right and wrong labels, but {n_wrong} of {len(wrong)} are wrong")
    scores = (roc_auc_score(wrong, -p_correct), average_precision_score(wrong, -p_correct))
    found = dict(zip(("auc", "average_precision"), map(float, scores), strict=True))
    ranked = wrong[np.argsort(p_correct, kind="stable")]
    for depth in DEPTHS:
        length = min(len(wrong), max(1, round(depth * n_wrong)))
        hits = int(ranked[:length].sum())
        found |= {f"precision_at_{depth:g}": hits / length, f"recall_at_{depth:g}": hits / n_wrong}
    return found


def list_quality(chosen: np.ndarray, wrong: np.ndarray) -> dict[str, float]:
    """Precision and recall of the samples that an audit calls suspects (mask); an empty list has precision 0."""
    n, hits = int(chosen.sum()), int((chosen & wrong).sum())
    return {"suspects": n, "suspects_precision": hits / max(n, 1), "suspects_recall": hits / max(int(wrong.sum()), 1)}

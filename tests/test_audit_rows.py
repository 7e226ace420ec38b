"""What a learner thinks of the labels in its memory, in which order."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from puridiver.learner.audit_rows import audit_rows
from puridiver.trainers import Split
from tests.learner_samples import as_samples


def split_of(p_clean: Tensor, p_model: Tensor) -> Split:
    clean, nowhere, mixtures = (
        p_clean > 0.5,
        torch.zeros(len(p_clean)),
        {"loss_mixture": None, "uncertainty_mixture": None},
    )
    parts: dict[str, Any] = {"arrivals": torch.arange(len(p_clean)), "p_certain": nowhere, "loss": nowhere, **mixtures}
    return Split(clean=clean, relabel=~clean, unlabelled=nowhere.bool(), p_clean=p_clean, p_model=p_model, **parts)


def test_what_is_taken_for_another_class_comes_first_then_what_is_least_sure() -> None:
    samples = as_samples(np.zeros((5, 8, 8, 1), np.uint8), np.array([0, 0, 0, 1, 1]))
    p_model = torch.tensor([[0.6, 0.4], [0.2, 0.8], [0.6, 0.4], [0.9, 0.1], [0.1, 0.9]])
    p_clean = torch.tensor([0.01, 0.3, 0.9, 0.2, 0.01])
    rows = audit_rows(samples, split_of(p_clean, p_model), ["cat", "dog"], {3: "three.png", 4: 44})
    assert [row.arrival for row in rows] == [3, 1, 0, 4, 2]
    assert [row.suggested_label for row in rows] == ["cat", "dog", "cat", "dog", "cat"]
    assert [row.id for row in rows] == ["three.png", None, None, 44, None]

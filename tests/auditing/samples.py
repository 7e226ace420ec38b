"""A small set with labels that were put wrong on purpose, and its audit."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.learner_samples import patterns

CLASSES = ["cat", "dog", "owl"]
QUICK: dict[str, Any] = {
    "passes": 2, "parts": 1, "memory": 24, "epochs": 4, "network": "small", "device": "cpu",
    "options": {"flip": False, "crop_padding": 1, "online_lr": 0.02},
}  # fmt: skip


def planted(n: int = 150, rate: float = 0.2, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images, given ids and true ids; round(rate * n) of the given ones are wrong."""
    images, true = patterns(n, seed=seed)
    rng = np.random.default_rng(seed)
    wrong = rng.choice(n, round(rate * n), replace=False)
    given = true.copy()
    given[wrong] = (given[wrong] + rng.integers(1, 3, size=len(wrong))) % 3
    return images, given, true


def words(ids: np.ndarray) -> list[str]:
    return [CLASSES[i] for i in ids.tolist()]

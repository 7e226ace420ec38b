"""A river classifier: samples are dicts of numbers and come one by one, or as data frames."""

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import pandas as pd
from river import base

from puridiver.integrations.labels import LabelledLearner


class PuriDivERClassifier(base.MiniBatchClassifier):
    """Learns online from dicts of numbers whose labels are partly wrong. Classes join as they come.

    The features are those of the first sample. A feature that a later sample lacks counts as 0; others are left out.

    Parameters
    ----------
    batch
        `learn_one` collects so many samples and learns from them together; from the first one at once.
    consolidate_every
        Train on the memory after so many samples.
    seed
        Fixes every random choice.
    settings
        Further arguments of `puridiver.Learner`, such as `memory=200` or `epochs=15`.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from puridiver.integrations.river import PuriDivERClassifier
    >>> model = PuriDivERClassifier(memory=100, consolidate_every=300, epochs=7)
    >>> score = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    >>> score.get() > 0.8
    True
    """

    def __init__(self, batch: int = 16, consolidate_every: int = 1000, seed: int = 0, **settings: Any) -> None:
        if batch < 1:
            raise ValueError(f"batch should be at least 1, but got {batch}")
        self.batch, self.consolidate_every, self.seed, self.settings = batch, consolidate_every, seed, settings
        self._features: list[Hashable] = []
        self._student: LabelledLearner | None = None
        self._waiting: list[tuple[np.ndarray, Hashable]] = []

    @property
    def _multiclass(self) -> bool:
        return True

    def _unit_test_skips(self) -> set[str]:
        """Checks of river: a batch is one step, and torch pickles equal tensors to bytes that differ."""
        return {"check_learn_many_matches_learn_one", "check_no_state_aliasing_with_input"}

    def _get_params(self) -> dict[str, Any]:
        return {"batch": self.batch, "consolidate_every": self.consolidate_every, "seed": self.seed, **self.settings}

    def learn_one(self, x: dict[Hashable, Any], y: Hashable) -> None:
        student = self._begun(x)
        self._waiting.append((self._vector(x), y))
        if len(self._waiting) >= self.batch or not student.labels:
            self._learn_waiting(student)

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Learn from a whole frame at once, after what `learn_one` has collected."""
        student = self._begun(X.columns)
        self._learn_waiting(student)
        student.observe(self._vectors(X), y.tolist())

    def predict_proba_one(self, x: dict[Hashable, Any], **kwargs: Any) -> dict[Any, float]:
        """The probability of each class; empty before anything is learnt."""
        if self._student is None or not self._student.labels:
            return {}
        found = self._student.probabilities(self._vector(x)[None])[0].tolist()
        return dict(zip(self._student.labels, found, strict=True))

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        if self._student is None or not self._student.labels:
            return pd.DataFrame(index=X.index)
        found = self._student.probabilities(self._vectors(X))
        return pd.DataFrame(found, index=X.index, columns=self._student.labels)

    def _begun(self, features: Iterable[Hashable]) -> LabelledLearner:
        """The learner; the first sample decides its features."""
        if self._student is None:
            self._features = sorted(features, key=str)
            settings = {"seed": self.seed, **self.settings}
            self._student = LabelledLearner((len(self._features),), self.consolidate_every, **settings)
        return self._student

    def _vector(self, x: dict[Hashable, Any]) -> np.ndarray:
        found = np.array([x.get(name, 0.0) for name in self._features], dtype=np.float32)
        if not np.isfinite(found).all():
            raise ValueError(f"features should be finite numbers that fit in float32, but got {x}")
        return found

    def _vectors(self, X: pd.DataFrame) -> np.ndarray:
        return X.reindex(columns=self._features, fill_value=0.0).to_numpy(np.float32)

    def _learn_waiting(self, student: LabelledLearner) -> None:
        if self._waiting:
            vectors, labels = zip(*self._waiting, strict=True)
            student.observe(np.stack(vectors), labels)
            self._waiting = []

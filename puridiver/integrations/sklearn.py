"""A scikit-learn classifier: `fit` takes a set as a stream in random order, `partial_fit` goes on with a stream."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from puridiver.integrations.labels import LabelledLearner
from puridiver.learner.inputs import shape_of
from puridiver.learner.learner import Learner

BATCH = 16  # samples that a learner observes at once: fewer, larger batches teach less


class PuriDivERClassifier(ClassifierMixin, BaseEstimator):
    """Learns from vectors (N, d), or images (N, H, W, C), whose labels are partly wrong.

    Parameters
    ----------
    memory, sampler, trainer, recipe, network, device
        Those of `puridiver.Learner`.
    options
        Options that replace the recipe's, such as `{"epochs": 15}`.
    consolidate_every
        `partial_fit` trains on the memory after so many samples. `fit` does so at its end as well.
    random_state
        Fixes the order of `fit`, initial weights, augmentation and every random choice.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from puridiver.integrations.sklearn import PuriDivERClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(PuriDivERClassifier(random_state=0).fit(X, y).score(X, y) > 0.9)
    True
    """

    def __init__(
        self,
        memory: int = 500,
        sampler: str = "auto",
        trainer: str = "auto",
        recipe: str = "puridiver",
        network: str = "auto",
        device: str = "auto",
        options: Mapping[str, Any] | None = None,
        consolidate_every: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.memory, self.sampler, self.trainer, self.recipe = memory, sampler, trainer, recipe
        self.network, self.device, self.options = network, device, options
        self.consolidate_every, self.random_state = consolidate_every, random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn anew: see every sample once, in random order, and train on the memory at the end."""
        X, y = self._checked(X, y, reset=True)
        random = check_random_state(self.random_state)
        self._begin(X, np.unique(y), random)
        self._observe(X, y, random.permutation(len(y)))
        self._student.consolidate()
        return self

    def partial_fit(self, X: Any, y: Any, classes: Sequence[Any] | None = None) -> Self:
        """Go on with these samples, in their order. Without `classes` new labels join as they come."""
        begins = not hasattr(self, "_student")
        X, y = self._checked(X, y, reset=begins)
        if begins:
            self._begin(X, None if classes is None else np.unique(classes), check_random_state(self.random_state))
        self._observe(X, y, np.arange(len(y)))
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities, (N, C), in the order of `classes_`."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, allow_nd=True)
        return self._student.probabilities(_samples(X))[:, self._columns]

    def predict(self, X: Any) -> np.ndarray:
        """The most likely class of each sample, (N,)."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    @property
    def learner_(self) -> Learner:
        """The learner, with its memory and audit. Its classes are numbers, in the order in which labels came."""
        check_is_fitted(self)
        return self._student.learner

    def _checked(self, X: Any, y: Any, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        X, y = validate_data(self, X, y, reset=reset, allow_nd=True)
        check_classification_targets(y)
        return X, column_or_1d(y)

    def _begin(self, X: np.ndarray, classes: np.ndarray | None, random: np.random.RandomState) -> None:
        self._student = LabelledLearner(
            shape_of(_samples(X[:1])), self.consolidate_every, None if classes is None else classes.tolist(),
            memory=self.memory, sampler=self.sampler, trainer=self.trainer, recipe=self.recipe, network=self.network,
            device=self.device, seed=int(random.randint(2**31 - 1)), **(self.options or {}),
        )  # fmt: skip

    def _observe(self, X: np.ndarray, y: np.ndarray, order: np.ndarray) -> None:
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            self._student.observe(_samples(X[rows]), y[rows].tolist())
        self.classes_, self._columns = np.unique(np.array(self._student.labels), return_index=True)


def _samples(X: np.ndarray) -> np.ndarray:
    """Vectors as floats, whatever kind of number they are; images as they are."""
    return X.astype(np.float32) if X.ndim == 2 else X

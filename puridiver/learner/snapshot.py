"""A learner's answer at one moment, for threads that must not wait and must not see it change."""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from puridiver.learner.inputs import Label
from puridiver.learner.predictor import FrozenAnswer, check_finite


class Snapshot:
    """Predicts as the learner did when `Learner.snapshot` was called, whatever it learns later.

    Any number of threads may use it at once; it takes no lock.
    """

    def __init__(self, answer: FrozenAnswer, as_samples: Callable[[Any], Tensor], samples_seen: int) -> None:
        self._answer, self._as_samples = answer, as_samples
        self.samples_seen = samples_seen  # by the learner until then

    @property
    def classes(self) -> list[Label]:
        """The class labels, in the order of the columns of `predict_proba`."""
        return self._answer.labels.tolist()

    def predict(self, images: Any) -> np.ndarray:
        """The most likely class label of each image, (N,)."""
        probabilities = self.predict_proba(images)
        check_finite(probabilities)
        return self._answer.labels[probabilities.argmax(axis=1)]

    def predict_proba(self, images: Any) -> np.ndarray:
        """Class probabilities, float32 (N, C)."""
        return self._answer.probabilities(self._as_samples(images)).float().cpu().numpy()

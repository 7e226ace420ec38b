"""A learner that takes any hashable labels and consolidates by itself."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from puridiver.errors import few
from puridiver.learner.learner import Learner


class LabelledLearner:
    """Numbers the labels in the order in which they come, since a `Learner` takes integers or strings alone.

    `classes` are the labels known beforehand; None lets labels join. A consolidation follows each `every` samples.
    """

    def __init__(
        self, input_shape: tuple[int, ...], every: int, classes: Sequence[Hashable] | None = None, **settings: Any
    ) -> None:
        known = None if classes is None else len(classes)
        self.learner, self.every, self._since = Learner(known, input_shape, **settings), every, 0
        self._numbers: dict[Hashable, int] = {label: number for number, label in enumerate(classes or ())}

    @property
    def labels(self) -> list[Hashable]:
        """The labels of the columns of `probabilities`."""
        known = list(self._numbers)
        return [known[number] for number in self.learner.classes]  # type: ignore[index]

    def observe(self, samples: np.ndarray, labels: Iterable[Hashable]) -> None:
        """Learn from a batch, and from the memory where that is due."""
        numbers = dict(self._numbers)
        given = [numbers.setdefault(label, len(numbers)) for label in labels]
        if not self.learner.grow and len(numbers) > len(self._numbers):
            new = few(repr(label) for label in numbers if label not in self._numbers)
            raise ValueError(f"labels should be among the classes {few(map(repr, self._numbers))}, but got {new}")
        self.learner.observe(samples, given)
        self._numbers, self._since = numbers, self._since + len(given)
        if self._since >= self.every:
            self.consolidate()

    def consolidate(self) -> None:
        self.learner.consolidate()
        self._since = 0

    def probabilities(self, samples: np.ndarray) -> np.ndarray:
        """Of each label, float64 (N, C), in the order of `labels`."""
        found = self.learner.predict_proba(samples).astype(np.float64)
        return found / found.sum(axis=1, keepdims=True)  # to the last bits: float32 leaves 1e-7

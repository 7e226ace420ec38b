"""Tells, as events, which samples enter the memory and leave it, and what each training on it made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from puridiver.learner.learner import Learner
from puridiver.memory.samples import Samples
from puridiver.metrics.memory_snapshot import UNKNOWN
from puridiver.streams import TrueLabels
from puridiver.trainers import SET_NAMES

Positions = Callable[[Tensor], Tensor]  # of arrivals, in the stream


class MemoryWatch:
    """Compares the memory with what it was before; only a run that is traced has one, since a GPU has to wait for it.

    Events "memory": `entered` (arrivals), and of each the row of its `images` among the train images, its `given` and
    its `true` label (class ids; null where nobody knows), and its file in `names`, where data are of files; `left`.
    Events "sets": `arrivals`, `sets` and `suggested`, the set of each sample in a consolidation's last epoch and the
    label that it suggests.
    """

    def __init__(self, truth: TrueLabels, emit: Callable[[dict[str, Any]], None]) -> None:
        self.truth, self.emit = truth, emit
        self._samples: Samples | None = None
        self._held: set[int] = set()

    def begin(self, learner: Learner) -> None:
        """What is in the memory now was told before: a run may be one that goes on."""
        self._samples = learner.memory.samples
        self._held = set(self._samples.arrivals.tolist())

    def look(self, learner: Learner, task: int, positions: Positions) -> None:
        """Tell what has changed since the last look; costs nothing where nothing has."""
        if learner.memory.samples is self._samples:
            return
        self._samples = learner.memory.samples
        now = self._samples.arrivals.tolist()
        entered, left = sorted(set(now) - self._held), sorted(self._held - set(now))
        self._held = set(now)
        if entered or left:
            at = positions(torch.tensor(entered, dtype=torch.int64))
            names = self.truth.names_at(at)
            self.emit({
                "event": "memory", "task": task, "seen": learner.seen, "entered": entered,
                "images": self.truth.rows_at(at).tolist(), "given": self.truth.given_at(at).tolist(),
                "true": [None if label == UNKNOWN else label for label in self.truth.of(at).tolist()], "left": left,
                **({} if names is None else {"names": names}),
            })  # fmt: skip

    def consolidated(self, learner: Learner, task: int, positions: Positions) -> None:
        """After a consolidation: how its last epoch divided the memory, if the trainer divides it at all."""
        if (sets := learner.trainer.sets) is None:
            return
        given = self.truth.given_at(positions(sets.arrivals)).cpu()
        suggested = torch.where(sets.codes == SET_NAMES.index("clean"), given, sets.guesses)
        self.emit({
            "event": "sets", "task": task, "seen": learner.seen, "arrivals": sets.arrivals.tolist(),
            "sets": sets.codes.tolist(), "suggested": suggested.tolist(),
        })  # fmt: skip

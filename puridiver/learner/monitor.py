"""What a learner notes of its stream as it goes: loss, agreement with arriving labels, doubt, and time spent."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from puridiver.learner.verdicts import Verdict
from puridiver.runtime.device import Runtime
from puridiver.trainers import SET_NAMES

if TYPE_CHECKING:
    from puridiver.learner.learner import Learner

WINDOW = 1000  # figures count for about this many samples: older ones fade
FIGURES = ("samples", "loss", "judged", "doubt", "predicted", "agreed")  # decayed sums


class Monitor:
    """Figures of the last samples, which fade, and seconds. The sums stay on the device: nobody waits for it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.sums = torch.zeros(len(FIGURES), dtype=torch.float64, device=runtime.device)
        self.seconds = {"observing": 0.0, "consolidating": 0.0}

    def note(self, loss: Tensor, verdict: Verdict | None, labels: Tensor) -> None:
        """Take in a batch: its loss, (), the verdict on it, and the class ids it came with."""
        n = len(labels)
        self.sums = self.sums * (1 - 1 / WINDOW) ** n
        self.sums[0] += n
        self.sums[1] += n * loss
        if verdict is not None:
            p_right, predicted = verdict.p_right.double(), verdict.predicted
            judged = p_right.isfinite()
            told = judged.sum(), torch.where(judged, 1 - p_right, 0).sum(), predicted.isfinite().sum()
            self.sums[2:] += torch.stack([value.double() for value in (*told, (predicted == labels).sum())])

    @contextlib.contextmanager
    def timing(self, activity: str) -> Iterator[None]:
        """Count the seconds of an activity; what ends in an error changes nothing."""
        start = time.perf_counter()
        yield
        self.seconds[activity] += time.perf_counter() - start

    @property
    def loss(self) -> Tensor:
        """The mean training loss of the last samples, (), float32; 0 if there were none."""
        return (self.sums[1] / self.sums[0].clamp(min=1)).float()

    @property
    def agreement(self) -> Tensor:
        """The share of the last labels that were predicted before they were learnt, (); 0 if there were none."""
        return self.sums[5] / self.sums[4].clamp(min=1)

    def figures(self) -> dict[str, Any]:
        """Means over the last samples, as JSON can hold them: None where there is nothing to tell."""
        samples, loss, judged, doubt, predicted, agreed = self._runtime.read(self.sums).tolist()

        def share(total: float, n: float) -> float | None:
            return total / n if n and np.isfinite(total) else None

        return {
            "loss": share(loss, samples),
            "agreement": share(agreed, predicted),
            "noise_rate": share(doubt, judged),
            "seconds": dict(self.seconds),
        }

    def state(self) -> dict[str, Tensor]:
        return {"sums": self.sums}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        sums = self._runtime.move(tensors["sums"])
        if sums.shape != self.sums.shape or sums.dtype != self.sums.dtype:
            raise ValueError(f"monitor.sums should be float64 {tuple(self.sums.shape)}, but is {tuple(sums.shape)}")
        self.sums = sums


def status_of(learner: Learner) -> dict[str, Any]:
    """What `Learner.status` says."""
    held, begun = learner.memory.held(), learner.consolidating.begun
    counts, sets = Counter(held.labels.tolist()), learner.trainer.sets if learner.classes else None
    return {
        "samples_seen": learner.seen,
        "classes": [
            {"label": label, "seen": learner.seen_of[k], "held": counts[k]} for k, label in enumerate(learner.classes)
        ],
        "memory": {"held": len(held), "checked": int(held.checked.sum()), "capacity": learner.capacity},
        "consolidations": learner.consolidations,
        "consolidation": begun._asdict() if begun else None,
        "sets": dict(zip(SET_NAMES, sets.sizes(), strict=True)) if sets else None,  # of the last memory epoch
        "diverged": learner.has_said_nan,
        "pending": len(learner.edits.pending),  # corrections and removals that wait for the end of a consolidation
        **learner.monitor.figures(),
    }

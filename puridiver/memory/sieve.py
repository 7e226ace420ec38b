"""A class-balanced reservoir that prefers samples whose labels looked right when they arrived."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from puridiver.memory.base import Moment, Samples
from puridiver.memory.ntd import HighestNoteGoes
from puridiver.options import Option

LEAST = 1e-3  # of a weight


class Sieve(HighestNoteGoes):
    """Draws a weighted sample of each class without replacement (Efraimidis and Spirakis, 2006), the classes level.

    The weight of a sample is a power of the probability that its label is right, judged when it arrived. So the memory
    is clean, and among clean samples it is a random sample of the class as it is: not its easiest part. It scores
    nothing again, and costs no pass through the network.
    """

    name = "sieve"
    title = "Sieve"
    summary = "a class-balanced reservoir of samples whose labels looked right on arrival"
    wants_verdicts = True
    own_options: ClassVar[Mapping[str, Option]] = {
        "sieve_power": Option(8.0, "power of the probability that a label is right (0: a plain reservoir)", low=0),
    }

    def note_arrivals(self, batch: Samples, moment: Moment) -> Tensor:
        """Exponential draws with the weights as their rates: the largest of a class goes first."""
        drawn = torch.empty(len(batch)).exponential_(generator=moment.generator)
        p_right = torch.ones(len(batch)) if moment.p_right is None else moment.p_right.nan_to_num(nan=1.0)
        weights = p_right.pow(self.options.sieve_power).clamp(min=LEAST)
        return moment.runtime.move(drawn) / moment.runtime.move(weights)

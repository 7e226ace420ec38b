"""A class-balanced reservoir that prefers samples whose labels looked right when they arrived."""

from dataclasses import replace

import torch
from torch import Tensor

from puridiver.memory.base import Moment, Samples
from puridiver.memory.ntd import HighestNoteGoes
from puridiver.options import Option

LEAST = 1e-3  # of a weight


class Sieve(HighestNoteGoes):
    """Draws a weighted sample of each class without replacement (Efraimidis and Spirakis, 2006), the classes level.

    The weight of a sample is a power of the probability that its label is right. So the memory is clean, and among
    clean samples it is a random sample of the class as it is: not its easiest part. The learner judges labels when they
    arrive, and those of the memory again now and then. A sample's notes are its draw and that probability.
    """

    name = "sieve"
    title = "Sieve"
    summary = "a class-balanced reservoir of samples whose labels look right"
    wants_verdicts = True
    n_notes = 2
    own_options = {
        "sieve_power": Option(16.0, "power of the probability that a label is right (0: a plain reservoir)", low=0),
    }

    def note_arrivals(self, batch: Samples, moment: Moment) -> Tensor:
        drawn = torch.empty(len(batch)).exponential_(generator=moment.generator)
        p_right = torch.ones(len(batch)) if moment.p_right is None else moment.p_right.nan_to_num(nan=1.0)
        return torch.stack([moment.runtime.move(drawn), moment.runtime.move(p_right)], dim=1)

    def judged_again(self, held: Samples, p_right: Tensor) -> Tensor:
        return torch.stack([held.notes[:, 0], p_right], dim=1)

    def choose(self, pool: Samples, n_old: int, capacity: int, moment: Moment) -> Tensor:
        """Exponential draws with the weights as their rates: the largest of a class goes first."""
        drawn, p_right = pool.notes.unbind(dim=1)
        p_right = torch.where(pool.checked, 1.0, p_right)
        ranks = drawn / p_right.pow(self.options.sieve_power).clamp(min=LEAST)
        return super().choose(replace(pool, notes=ranks), n_old, capacity, moment)

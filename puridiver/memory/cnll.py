"""CNLL's sampler (Karim et al., "CNLL: a semi-supervised approach for continual noisy label learning", CVPRW 2022)."""

import torch
from torch import Tensor

from puridiver.equations import purified
from puridiver.memory.base import Moment, Sampler, Samples
from puridiver.memory.delayed import DelayedMemory, level_rows
from puridiver.options import Option


class Separation(Sampler):
    """Divides a full delay buffer by how far labels are from predictions, and keeps random samples of both parts.

    A label is purified if it is no further from its prediction than those of the delay buffer on average. The others
    stay to be learnt from without their labels. Its authors have two replay buffers; here both share the memory.
    """

    name = "cnll"
    title = "CNLL"
    summary = (
        "CNLL: arrivals wait in a delay buffer, which is divided by the mean divergence of labels from predictions"
    )
    memory_class = DelayedMemory
    own_options = {"cnll_noisy": Option(0.5, "share of the memory for samples with doubtful labels", low=0, high=0.95)}

    def note_arrivals(self, batch: Samples, moment: Moment) -> Tensor:
        """1: purified, 0: doubtful."""
        return purified(moment.network.outputs(batch.images)[1], batch.labels).float()

    def choose(self, pool: Samples, n_old: int, capacity: int, moment: Moment) -> Tensor:
        labels, clean = moment.runtime.read(pool.labels), moment.runtime.read(pool.notes) > 0.5
        n_doubtful = min(round(self.options.cnll_noisy * capacity), int((~clean).sum()))
        first = level_rows(labels, clean, capacity - n_doubtful, moment.generator)
        second = level_rows(labels, ~clean, capacity - len(first), moment.generator)
        return torch.cat([first, second]).sort().values

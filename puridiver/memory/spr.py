"""SPR's sampler, the Self-Centered filter (Kim et al., ICCV 2021): arrivals wait, an expert judges them together."""

import copy

import torch
from torch import Tensor

from puridiver.memory.base import Moment, Sampler, Samples
from puridiver.memory.delayed import DelayedMemory, level_rows
from puridiver.options import Option, Options
from puridiver.spr import ENCODER_OPTIONS, Encoder, clean_probability, scaled_epochs


class SelfCenteredFilter(Sampler):
    """Samples of the delay buffer that are central among those of their label move to the memory.

    An expert network tells how central they are. It learns from the delay buffer alone, without labels, and is then
    forgotten.
    """

    name = "spr"
    title = "Self-Centered filter"
    summary = "SPR: arrivals wait in a delay buffer; keeps those that are central among the samples of their label"
    memory_class = DelayedMemory
    own_options = {
        "spr_filter": Option(True, "filter the delay buffer; off: all of it competes for the memory"),
        "spr_expert_epochs": Option(4000, "self-supervised epochs of the expert for each delay buffer", low=0),
        "spr_graphs": Option(5, "random graphs over which the probability of a label is averaged", low=1),
        **ENCODER_OPTIONS,
    }

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._expert: Encoder | None = None  # its place is kept; its weights are new for each delay buffer

    def choose(self, pool: Samples, n_old: int, capacity: int, moment: Moment) -> Tensor:
        stay = torch.ones(len(pool), dtype=torch.bool)
        if self.options.spr_filter:
            arrived = pool.take(torch.arange(n_old, len(pool), device=pool.labels.device))
            p = moment.runtime.read(self.clean_probability(arrived, moment))
            stay[n_old:] = torch.rand(len(p), generator=moment.generator) < p
            if not stay.any():
                stay[n_old + int(p.argmax())] = True  # a memory should not be empty once samples have come
        return level_rows(moment.runtime.read(pool.labels), stay, capacity, moment.generator)

    def shrink(self, held: Samples, capacity: int, moment: Moment) -> Tensor:
        """What is held has passed the filter."""
        labels = moment.runtime.read(held.labels)
        return level_rows(labels, torch.ones_like(labels, dtype=torch.bool), capacity, moment.generator)

    def clean_probability(self, samples: Samples, moment: Moment) -> Tensor:
        """How likely the label of each sample is right, (N,)."""
        o = self.options
        if self._expert is None:
            network = copy.deepcopy(moment.network.network)  # `restart` draws its weights
            self._expert = Encoder(network, moment.runtime, o)
        self._expert.restart(moment.generator)
        self._expert.learn(samples.images, scaled_epochs(o.spr_expert_epochs, o.spr_budget), moment.generator)
        features = self._expert.projections(samples.images)
        return clean_probability(features, samples.labels, moment.n_classes, o.spr_graphs, moment.generator)

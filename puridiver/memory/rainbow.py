"""RM: Rainbow Memory (Bang et al., 2021), run at every batch as in the paper."""

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver.augment import repeated
from puridiver.augment.rainbow import COPIES, draw_centres, perturbations
from puridiver.memory.base import Moment, Sampler, Samples, class_counts

TIE = 1 / 100  # less than the least difference of two variance ratios of twelve votes


def variance_ratio(votes: Tensor, n_classes: int) -> Tensor:
    """1 - share of the most frequent prediction over the perturbed copies; `votes` (copies, N) -> (N,)."""
    counts = F.one_hot(votes, n_classes).sum(dim=0)  # (N, C)
    return 1 - counts.amax(dim=1) / len(votes)


def regular_stride(uncertainty: Tensor, labels: Tensor, quota: Tensor) -> Tensor:
    """Which samples stay when each class keeps `quota[c]` at a regular stride in order of uncertainty, (N,).

    The stride is a whole number and starts at the surest sample, as public code of Rainbow Memory has it: of a class
    that has fewer than twice its quota, the surest stay.
    """
    order = uncertainty.argsort(stable=True)
    order = order[labels[order].argsort(stable=True)]  # by class, then by uncertainty
    counts = class_counts(labels, torch.ones_like(labels), len(quota)).long()
    starts = counts.cumsum(0) - counts
    rank = torch.arange(len(labels), device=labels.device) - starts[labels[order]]
    n, q = counts[labels[order]], quota[labels[order]]
    stride = n // q.clamp(min=1)
    chosen = (rank % stride == 0) & (rank // stride < q)
    return torch.zeros_like(chosen).index_copy_(0, order, chosen)


class RainbowMemory(Sampler):
    """Per class, samples from the surest to the least sure at a regular stride."""

    name = "rm"
    title = "RM"
    summary = "Rainbow Memory: a regular stride over each class in order of uncertainty"
    freezes_norm = True

    def choose(self, pool: Samples, n_old: int, capacity: int, moment: Moment) -> Tensor:
        if len(pool) <= capacity:
            return torch.arange(len(pool))
        counts = class_counts(pool.labels, torch.ones_like(pool.labels), moment.n_classes).long()
        fair_share = capacity // (counts > 0).sum()
        uncertainty = self.uncertainty(pool, moment)
        lots = moment.runtime.move(torch.rand(2, len(pool), generator=moment.generator))
        # The ratio has twelve values: equals are put in order by lot, or what came first would always stay.
        stay = regular_stride(uncertainty + lots[0] * TIE, pool.labels, counts.minimum(fair_share))
        # Places that small classes leave empty go to random others.
        return (lots[1] + stay).topk(capacity).indices.sort().values

    def uncertainty(self, pool: Samples, moment: Moment) -> Tensor:
        """The variance ratio of each sample over its 12 perturbed copies, (N,)."""
        n = len(pool)
        if pool.images.ndim == 2:  # noise is all that perturbs a vector
            copies = moment.strong_view(repeated(pool.images, COPIES))
        else:
            height, width = pool.images.shape[2:]
            centres = moment.runtime.move(draw_centres(n, height, width, moment.generator))
            copies = perturbations(pool.images, centres).flatten(0, 1)  # (12 * N, C, H, W)
        votes = moment.network.outputs(copies, large_passes=True)[1].argmax(dim=1)
        return variance_ratio(votes.view(COPIES, n), moment.n_classes)

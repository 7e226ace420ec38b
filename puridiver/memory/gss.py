"""GSS: gradient-based sample selection, the greedy variant (Aljundi et al., NeurIPS 2019, Algorithm 2)."""

import torch
from torch import Tensor

from puridiver.memory.base import Moment, Sampler, Samples
from puridiver.options import Option
from puridiver.runtime.model import TrainableModel

FIRST_SCORE = 0.1  # of samples that have nothing to be compared with


def gradient_scores(network: TrainableModel, images: Tensor, labels: Tensor, n_compared: int) -> Tensor:
    """1 + the largest cosine of each gradient with those of the first `n_compared` samples, (N - n_compared,)."""

    def direction(row: int) -> Tensor:
        gradient = network.gradient(images[row : row + 1], labels[row : row + 1])
        return gradient / gradient.norm().clamp(min=1e-12)

    others = torch.stack([direction(row) for row in range(n_compared)])
    return torch.stack([(others @ direction(row)).max() + 1 for row in range(n_compared, len(images))])


class GradientSelection(Sampler):
    """Takes a sample whose gradient points away from those of some memory samples, in the place of a similar one.

    A sample's score is 1 + the largest cosine of its gradient with those of `gss_compared` random memory samples. A
    full memory considers samples with a score below 1. The score stays with a sample. All samples of a batch are
    compared with the same memory samples.
    """

    name = "gss"
    title = "GSS"
    summary = "takes samples whose gradients point away from those of the memory (greedy variant)"
    own_options = {"gss_compared": Option(10, "random memory samples that a sample is compared with", low=1)}

    def choose(self, pool: Samples, n_old: int, capacity: int, moment: Moment) -> Tensor:
        pool.notes[n_old:] = self.scores(pool, n_old, moment)
        scores = moment.runtime.read(pool.notes).double()
        slots = list(range(n_old))
        for row in range(n_old, len(pool)):
            if len(slots) < capacity:
                slots.append(row)
            elif scores[row] < 1:
                held = scores[slots].clamp(min=1e-6)
                slot = int(torch.multinomial(held, 1, generator=moment.generator))
                if float(torch.rand((), generator=moment.generator)) < held[slot] / (held[slot] + scores[row]):
                    slots[slot] = row
        return torch.tensor(slots, dtype=torch.int64)

    def scores(self, pool: Samples, n_old: int, moment: Moment) -> Tensor:
        """The scores of what arrives, (B,)."""
        n = min(n_old, self.options.gss_compared)
        if n == 0:
            return torch.full_like(pool.notes, FIRST_SCORE)
        rows = torch.cat([torch.randperm(n_old, generator=moment.generator)[:n], torch.arange(n_old, len(pool))])
        asked = pool.take(moment.runtime.move(rows))
        return gradient_scores(moment.network, asked.images, asked.labels, n)

"""A sampler and a trainer of one's own (docs/METHODS.md).

puridiver methods --plugin examples/own_methods.py --check
puridiver run --plugin examples/own_methods.py --sampler low-loss --trainer smooth
puridiver grid examples/own_methods.toml --plugin examples/own_methods.py
"""

from collections import Counter

import torch
import torch.nn.functional as F

import puridiver


@puridiver.register
class LowLoss(puridiver.Sampler):
    """Drops what the network finds hardest, of the class with the most samples."""

    name = "low-loss"

    def choose(self, pool, n_old, capacity, moment):
        _, logits = moment.network.outputs(pool.images)
        loss = F.cross_entropy(logits.float(), pool.labels, reduction="none")
        hardest_first, labels = loss.argsort(descending=True).tolist(), pool.labels.tolist()
        kept = set(range(len(pool)))
        while len(kept) > capacity:
            counts = Counter(labels[row] for row in sorted(kept))
            largest = max(counts, key=counts.__getitem__)
            kept.remove(next(row for row in hardest_first if row in kept and labels[row] == largest))
        return torch.tensor(sorted(kept))


@puridiver.register
class Smoothed(puridiver.Trainer):
    """Cross-entropy with smoothed labels."""

    name = "smooth"
    share = 0.1

    def memory_epoch(self, memory, epoch):
        targets = self.one_hot(memory.labels) * (1 - self.share) + self.share / self.n_classes
        self.plain_epoch(memory, targets)

"""A sampler and two trainers of one's own (docs/METHODS.md).

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


@puridiver.register
class GeneralisedCrossEntropy(puridiver.Trainer):
    """A loss of one's own: (1 - p^q) / q, which wrong labels pull at less (Zhang and Sabuncu, 2018)."""

    name = "gce"
    q = 0.7

    def memory_epoch(self, memory, epoch):
        views = self.next_memory_view(memory)  # uint8, augmented
        for rows in self.batch_rows(len(memory)):
            rows = rows.to(views.device)
            logits = self.trainees[0].logits(self.to_float(views[rows]))  # with gradients, and as BatchNorm trains
            p = logits.float().softmax(dim=1).gather(1, memory.labels[rows, None])
            self.step(0, ((1 - p.clamp(min=1e-6) ** self.q) / self.q).mean())

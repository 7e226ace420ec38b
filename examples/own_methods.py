"""A sampler, two trainers and a network of one's own (docs/methods.md).

puridiver methods --plugin examples/own_methods.py --check
puridiver run --plugin examples/own_methods.py --sampler low-loss --trainer smooth
puridiver run --plugin examples/own_methods.py --network patches
puridiver grid examples/own_methods.toml --plugin examples/own_methods.py
"""

from collections import Counter

import torch
import torch.nn.functional as F
from torch import nn

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
    own_options = {"smooth_share": puridiver.Option(0.1, "part of a label that all classes share", low=0, high=1)}

    def memory_epoch(self, memory, epoch):
        share = self.options.smooth_share
        self.plain_epoch(memory, self.one_hot(memory.labels) * (1 - share) + share / self.n_classes)


@puridiver.register
class TaylorCrossEntropy(puridiver.LossTrainer):
    """The first terms of cross-entropy's series, a loss that wrong labels pull at less (Feng et al., 2020)."""

    name = "taylor"
    own_options = {"taylor_terms": puridiver.Option(2, "terms of the series", low=1)}

    def sample_losses(self, logits, targets):
        missing = 1 - logits.softmax(dim=1)
        series = sum(missing**k / k for k in range(1, self.options.taylor_terms + 1))  # of each class's label, (N, C)
        return (targets * series).sum(dim=1)


@puridiver.register
class Patches(puridiver.Network):
    """Cuts images into patches that learn from each other by attention (a small vision transformer)."""

    name = "patches"
    width, patch, depth = 64, 4, 2

    def __init__(self, n_classes, input_shape, settings):
        super().__init__()
        height, width, channels = input_shape
        places = -(-height // self.patch) * -(-width // self.patch)
        self.cut = nn.Conv2d(channels, self.width, self.patch, stride=self.patch)
        self.places = nn.Parameter(0.02 * torch.randn(places, self.width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(self.width, 4, 2 * self.width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(self.depth)
        )
        self.head = puridiver.Head(self.width, n_classes, settings)

    def features(self, images):
        missing = [-side % self.patch for side in images.shape[2:]]
        tokens = self.cut(F.pad(images, (0, missing[1], 0, missing[0]))).flatten(2).transpose(1, 2) + self.places
        for layer in self.layers:
            tokens = layer(tokens)
        return tokens.mean(dim=1)

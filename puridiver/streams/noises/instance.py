"""Instance-dependent label noise: how likely a label is wrong, and what it says instead, depend on the image.

As in Xia et al., "Part-dependent label noise" (NeurIPS 2020), algorithm 2: each sample's flip rate is drawn from a
normal distribution around the noise rate, cut off at 0 and 1; a random matrix for each class turns the image into one
score for each other class, whose softmax says where the label flips to.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver.streams.checks import IntArray, require
from puridiver.streams.noise import Noise, NoiseSetting

SPREAD = 0.1  # standard deviation of the flip rates
LARGEST_SIDE = 32  # larger images are averaged down: the scores need no detail, and the matrices stay small


class InstanceDependent(Noise):
    """Flip about the share `rate` of the labels, each with the probability and to the class that its image suggests."""

    name = "instance"
    written = "instance-RATE"

    def apply(self, rng: np.random.Generator, labels: IntArray, setting: NoiseSetting) -> IntArray:
        noisy, n_classes, images = labels.copy(), setting.n_classes, setting.images
        if setting.rate == 0:
            return noisy
        require(n_classes > 1, "classes of instance-dependent noise", "at least 2", n_classes)
        flips = flip_rates(len(labels), setting.rate, rng)
        n_features = features(images[:1]).shape[1]
        projections = rng.standard_normal((n_classes, n_features, n_classes), dtype=np.float32)
        draws, flipping = rng.random(len(labels)), rng.random(len(labels)) < flips
        for label in range(n_classes):
            rows = np.flatnonzero(flipping & (labels == label))
            scores = features(images[torch.from_numpy(setting.samples[rows])]) @ projections[label]
            scores[:, label] = -np.inf
            noisy[rows] = pick(scores, draws[rows])
        return noisy


def flip_rates(count: int, rate: float, rng: np.random.Generator) -> np.ndarray:
    """How likely each label is wrong: normal around `rate`, cut off at 0 and 1."""
    from scipy.stats import truncnorm

    low, high = (0 - rate) / SPREAD, (1 - rate) / SPREAD
    return truncnorm.ppf(rng.random(count), low, high, loc=rate, scale=SPREAD)


def features(images: Tensor) -> np.ndarray:
    """Pixels as float32 (N, features) of about unit size, large images averaged down; vectors as they are."""
    if images.ndim == 2:
        return images.numpy()
    pixels = (images.permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.25
    height, width = (min(side, LARGEST_SIDE) for side in pixels.shape[2:])
    return F.adaptive_avg_pool2d(pixels, (height, width)).flatten(1).numpy()


def pick(scores: np.ndarray, draws: np.ndarray) -> IntArray:
    """One class for each row of scores by their softmax; `draws` are uniform in [0, 1)."""
    exponents = np.exp((scores - scores.max(axis=1, keepdims=True)).astype(np.float64))
    ends = exponents.cumsum(axis=1)
    return (ends <= draws[:, None] * ends[:, -1:]).sum(axis=1)

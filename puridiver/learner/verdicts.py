"""Is an arriving label right? A verdict from what the learner predicts and from the samples that its memory holds.

The measurements behind the constants are in `experiments/verdicts`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver.learner.inputs import Label
from puridiver.memory import Samples

RIGHT = 0.8  # share of right labels that is expected before an image is looked at
NEIGHBOURS, SOFTNESS = 20, 0.05  # that vote, and the difference in cosine that makes a vote e times as heavy
SIDE = 16  # pixels to which larger images are averaged before they are compared


class Observed(NamedTuple):
    """What `Learner.observe` says of a batch, judged before the learner learns it.

    `p_right` is nan where nothing speaks for or against a label: of the first samples of a class, until a second class
    has come, and without `judge`. There the suggested label is the one that came.
    """

    arrivals: range  # name the images in `audit`, `correct` and `forget`
    p_right: np.ndarray  # float32 (N,): probability that the label is right
    suggested: list[Label]  # the most likely class, given the image and the label that came


class Verdict(NamedTuple):
    """What is known of the labels of a batch before it is learnt; nan where nothing is."""

    p_right: Tensor  # (N,): probability that the label is right
    posterior: Tensor  # (N, C): of each class, given the image and the label
    predicted: Tensor  # (N,): class id by the image alone, as a float

    @property
    def suggested(self) -> Tensor:
        """The likeliest class of each image, (N,)."""
        return self.posterior.argmax(dim=1).float()

    def targets(self, given: Tensor) -> Tensor:
        """What to learn: the posterior, or the given one-hot labels (N, C) where nothing speaks against them."""
        return torch.where(self.p_right.isfinite()[:, None], self.posterior, given)


def nothing_known(labels: Tensor, n_classes: int) -> Verdict:
    unknown = torch.full((len(labels), n_classes), torch.nan, device=labels.device)
    return Verdict(unknown[:, 0], unknown, unknown[:, 0])


def judge(x: Tensor, y: Tensor, predicted: Tensor, held: Samples, known: Tensor, n_seen: int) -> Verdict:
    """Judge arriving labels by the probabilities `predicted` for their images, (N, C), and by the held samples.

    `known` says of which labels the learner has seen the class before, bool (N,), `n_seen` how many classes it has.
    """
    said = predicted
    if len(held):
        said = torch.stack([said, pixel_votes(x, held.images, held.labels, predicted.shape[1])]).nanmean(dim=0)
    found = posterior(said, y, n_seen)
    p_right = torch.where(known, found.gather(1, y[:, None]).squeeze(1), torch.nan)
    named = torch.where(predicted[:, 0].isfinite(), predicted.argmax(dim=1), torch.nan)
    return Verdict(p_right, found, named)


def votes(cosines: Tensor, labels: Tensor, n_classes: int, n_neighbours: int, softness: float) -> Tensor:
    """The share of each class among the labels of the nearest neighbours, closer ones counting more, (N, C).

    `cosines` are (N, M) with M labelled samples, `labels` (M,) their class ids.
    """
    nearest = cosines.topk(min(n_neighbours, cosines.shape[1]), dim=1)
    weights = (nearest.values / softness).softmax(dim=1)
    return cosines.new_zeros(len(cosines), n_classes).scatter_add_(1, labels[nearest.indices], weights)


def pixel_votes(images: Tensor, known: Tensor, labels: Tensor, n_classes: int) -> Tensor:
    """`votes` of known images with these class ids on others, by the pixels of small versions, (N, C)."""
    if images.ndim == 4:  # of a large image every step-th pixel will do
        step = max(1, min(images.shape[2:]) // (2 * SIDE))
        images, known = (each[:, :, ::step, ::step].float() for each in (images, known))
        small = min(SIDE, images.shape[2]), min(SIDE, images.shape[3])
        images, known = (F.adaptive_avg_pool2d(each, small) for each in (images, known))
    flat = torch.cat([images, known]).flatten(1)
    unit = F.normalize(flat - flat.mean(dim=1, keepdim=True), dim=1)
    return votes(unit[: len(images)] @ unit[len(images) :].T, labels, n_classes, NEIGHBOURS, SOFTNESS)


def posterior(p: Tensor, labels: Tensor, n_classes: int) -> Tensor:
    """Probability of each class, (N, C), given the image and the label that came.

    `p` (N, C) is the probability by the image alone. A share of RIGHT of the labels is right; a wrong label is any of
    the other `n_classes` - 1 alike.
    """
    joint = p * torch.full_like(p, (1 - RIGHT) / (n_classes - 1)).scatter_(1, labels[:, None], RIGHT)
    return joint / joint.sum(dim=1, keepdim=True)

"""Is an arriving label right? A verdict from what the learner predicts and from the samples that its memory holds.

The measurements behind the constants are in `experiments/verdicts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver.learner.inputs import Label
from puridiver.memory import Samples
from puridiver.nets import without_row

RIGHT = 0.8  # share of right labels that is expected before any has come
PRIOR, MEMORY = 30.0, 500.0  # labels of a class that this counts for; labels of the stream that are remembered, about
NEIGHBOURS, SOFTNESS = 20, 0.05  # that vote, and the difference in cosine that makes a vote e times as heavy
SIDE = 16  # pixels at most to which images are averaged before they are compared


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


class NoiseEstimate:
    """How probable each label is for each true class, by the verdicts on the labels that came.

    A verdict needs such a matrix, and gives a better one: classes that are often confused by those who label stand out
    after some hundred labels. Old verdicts fade, and a few made-up labels keep rare classes near the expected share.
    """

    def __init__(self, counts: Tensor) -> None:
        self.counts = counts  # (C, C): decayed sums of the probability of each true class, by the label that came

    def grown(self, n_classes: int) -> Tensor:
        more = n_classes - len(self.counts)
        return F.pad(self.counts, (0, more, 0, more))

    def matrix(self, n_classes: int, n_seen: int) -> Tensor:
        """Probability of each label, given the true class: (C, C), rows are true classes."""
        counts = self.grown(n_classes)
        expected = torch.full_like(counts, (1 - RIGHT) / (n_seen - 1)).fill_diagonal_(RIGHT)
        return (counts + PRIOR * expected) / (counts.sum(dim=1, keepdim=True) + PRIOR)

    def note(self, found: Tensor, labels: Tensor) -> None:
        """Take in the probabilities of the true classes of a batch, (N, C), and the labels that came."""
        n_classes = found.shape[1]
        came = F.one_hot(labels, n_classes).to(found.dtype)
        self.counts = (1 - 1 / MEMORY) ** len(labels) * self.grown(n_classes) + found.T @ came

    def load_state(self, tensors: Mapping[str, Tensor], n_classes: int) -> None:
        counts = tensors["counts"]
        if counts.ndim != 2 or len(set(counts.shape)) > 1 or len(counts) > n_classes or counts.dtype != torch.float32:
            raise ValueError(f"noise.counts should be float32 (classes, classes), but is {tuple(counts.shape)}")
        self.counts = counts.to(self.counts.device)

    def drop_class(self, number: int) -> None:
        self.counts = without_row(without_row(self.counts, number).T, number).T


def judge_again(predicted: Tensor, held: Samples, n_seen: int, noise: NoiseEstimate) -> Tensor:
    """The probability that each held label is right, (N,), by what is predicted now, (N, C), and by the other samples.

    The estimate of the noise learns nothing from it: the network has learnt these labels.
    """
    n_classes = predicted.shape[1]
    others = pixel_votes(held.images, held.images, held.labels, n_classes, apart=True)
    found = posterior((predicted + others) / 2, held.labels, noise.matrix(n_classes, n_seen))
    p_right = found.gather(1, held.labels[:, None]).squeeze(1)
    return torch.where(held.checked, 1.0, p_right)


def judge(
    x: Tensor, y: Tensor, predicted: Tensor, held: Samples, known: Tensor, n_seen: int, noise: NoiseEstimate
) -> Verdict:
    """Judge arriving labels by the probabilities `predicted` for their images, (N, C), and by the held samples.

    `known` says of which labels the learner has seen the class before, bool (N,), `n_seen` how many classes it has.
    The estimate of the noise is used, and learns from the verdict.
    """
    said = predicted
    if len(held):
        said = torch.stack([said, pixel_votes(x, held.images, held.labels, predicted.shape[1])]).nanmean(dim=0)
    found = posterior(said, y, noise.matrix(predicted.shape[1], n_seen))
    learnt = torch.where(known[:, None] & found.isfinite(), found, 0.0)
    noise.note(learnt, y)
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


def pixel_votes(images: Tensor, known: Tensor, labels: Tensor, n_classes: int, apart: bool = False) -> Tensor:
    """`votes` of known images with these class ids on others, by the pixels of small versions, (N, C).

    `apart`: the others are the same images, and none votes on itself.
    """
    if images.ndim == 4:  # of a large image every step-th pixel will do
        step = max(1, min(images.shape[2:]) // (2 * SIDE))
        images, known = (each[:, :, ::step, ::step].float() for each in (images, known))
        cells = [-(-side // SIDE) for side in images.shape[2:]]
        images, known = (F.avg_pool2d(each, cells, ceil_mode=True) for each in (images, known))
    flat = torch.cat([images, known]).flatten(1)
    unit = F.normalize(flat - flat.mean(dim=1, keepdim=True), dim=1)
    cosines = unit[: len(images)] @ unit[len(images) :].T
    if apart:
        cosines.fill_diagonal_(-torch.inf)
    return votes(cosines, labels, n_classes, NEIGHBOURS, SOFTNESS)


def posterior(p: Tensor, labels: Tensor, noise: Tensor) -> Tensor:
    """Probability of each class, (N, C), given the image and the label that came.

    `p` (N, C) is the probability by the image alone, `noise` (C, C) that of each label, given the class.
    """
    joint = p * noise[:, labels].T
    return joint / joint.sum(dim=1, keepdim=True)

"""Is an arriving label right? A verdict from what the learner predicts and from the samples that its memory holds.

The measurements behind the constants are in `experiments/verdicts`.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver.learner.inputs import Label
from puridiver.memory import Samples
from puridiver.nets import without_row

RIGHT = 0.8  # expected share of right labels, before any has come
PRIOR = 30.0  # weight of that expectation, in labels of a class
MEMORY = 500.0  # labels that the estimate of the noise remembers, about
NO_TRUST, FULL_TRUST = 0.3, 0.6  # agreement with arriving labels at which verdicts begin to count, and count in full
USUAL = 2.0  # an image that makes a label more than this many times as probable as usual speaks against noise
NEIGHBOURS, SOFTNESS = 20, 0.05  # how many vote; by which difference in cosine a vote weighs e times as much
MOST_CONFUSED = 1_000  # most classes for which the noise is estimated: its matrix grows with their square
AT_ONCE = 1_024  # samples that are compared with all others at a time: 200 MB for 50,000 samples
SIDE = 16  # largest side, in pixels, of the small versions that are compared


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

    def targets(self, given: Tensor, agreement: Tensor) -> Tensor:
        """What to learn: between the given one-hot labels (N, C) and the posterior, where there is one.

        A verdict is worth no more than its judge. So the posterior counts the more, the greater the share of arriving
        labels is that the learner predicts, ().
        """
        trust = ((agreement - NO_TRUST) / (FULL_TRUST - NO_TRUST)).clamp(0, 1).to(given.dtype)
        return torch.where(self.p_right.isfinite()[:, None], given.lerp(self.posterior, trust), given)


def nothing_known(labels: Tensor, n_classes: int) -> Verdict:
    unknown = torch.full((len(labels), n_classes), torch.nan, device=labels.device)
    return Verdict(unknown[:, 0], unknown, unknown[:, 0])


class NoiseEstimate:
    """How probable each label is for each true class, by the verdicts on the labels that came.

    A verdict needs such a matrix, and gives a better one: classes that are often confused by those who label stand out
    after some hundred labels. Old verdicts fade, and a few made-up labels keep rare classes near the expected share.

    A label that an image suggests, more than images of class c usually do, is hardly noise of c. Without that rule a
    class that comes late and looks like c passes for wrong labels of c, and is never learnt.
    """

    def __init__(self, counts: Tensor) -> None:
        self.counts = counts  # (C, C): decayed sums of the probability of each true class, by the label that came
        self.usual = counts.new_zeros(0, 0)  # (C, C): of what is predicted for images that are labelled as predicted

    @staticmethod
    def _grown(sums: Tensor, n_classes: int) -> Tensor:
        more = n_classes - len(sums)
        return F.pad(sums, (0, more, 0, more)) if more else sums

    def likelihoods(self, labels: Tensor, n_classes: int, n_seen: int) -> Tensor:
        """How probable the labels that came are for each true class, (N, C)."""
        even = torch.full((len(labels), n_classes), (1 - RIGHT) / (n_seen - 1), device=labels.device)
        expected = even.scatter_(1, labels[:, None], RIGHT)
        if n_classes > MOST_CONFUSED:
            return expected
        counts = self._grown(self.counts, n_classes)
        return (counts[:, labels].T + PRIOR * expected) / (counts.sum(dim=1) + PRIOR)

    def note(self, found: Tensor, labels: Tensor, predicted: Tensor) -> None:
        """Take in a batch: the probabilities of its true classes, its labels, and what the images alone suggest.

        `found` and `predicted` are (N, C); rows of `predicted` may be nan.
        """
        n_classes = found.shape[1]
        if n_classes > MOST_CONFUSED:
            self.counts = self.usual = self.counts[:0, :0]
            return
        came, kept = F.one_hot(labels, n_classes).to(found.dtype), (1 - 1 / MEMORY) ** len(labels)
        counts, usual = self._grown(self.counts, n_classes), self._grown(self.usual, n_classes)
        found = found * self._may_be_noise(usual, predicted, labels)
        self.counts = torch.addmm(counts, found.T, came, beta=kept)
        named = came * (predicted.argmax(dim=1) == labels)[:, None]
        self.usual = torch.addmm(usual, named.T, predicted.nan_to_num(), beta=kept)

    @staticmethod
    def _may_be_noise(usual: Tensor, predicted: Tensor, labels: Tensor) -> Tensor:
        """The share of each label that may be noise of each class, (N, C); 1 where nothing speaks against it."""
        images = usual.sum(dim=1, keepdim=True)
        expected = torch.where(images > 0, usual / images, 1.0)[:, labels].T
        share = (USUAL * expected / predicted.gather(1, labels[:, None])).clamp(max=1).nan_to_num(1.0)
        return share.scatter(1, labels[:, None], 1.0)

    def state(self) -> dict[str, Tensor]:
        return {"counts": self.counts, "usual": self.usual}

    def load_state(self, tensors: Mapping[str, Tensor], n_classes: int) -> None:
        for name, held in self.state().items():
            sums = tensors[name]
            if sums.ndim != 2 or len(set(sums.shape)) > 1 or len(sums) > n_classes or sums.dtype != torch.float32:
                raise ValueError(f"noise.{name} should be float32 (classes, classes), but is {tuple(sums.shape)}")
            setattr(self, name, sums.to(held.device))

    def drop_class(self, number: int) -> None:
        self.counts, self.usual = (
            without_row(without_row(sums, number).T, number).T for sums in (self.counts, self.usual)
        )


def judge_again(predicted: Tensor, held: Samples, n_seen: int, noise: NoiseEstimate) -> Tensor:
    """The probability that each held label is right, (N,), by what is predicted now, (N, C), and by the other samples.

    The estimate of the noise learns nothing from it: the network has learnt these labels.
    """
    n_classes = predicted.shape[1]
    others = votes_on_each_other(unit_pixels(held.images), held.labels, n_classes, NEIGHBOURS, SOFTNESS)
    said = (predicted + others) / 2
    found = posterior(said, noise.likelihoods(held.labels, n_classes, n_seen))
    return found.gather(1, held.labels[:, None]).squeeze(1)


class Neighbours:
    """The samples that a memory holds vote on other images. A CPU makes their small versions once and keeps them."""

    def __init__(self) -> None:
        self._arrivals, self._pixels = torch.empty(0, dtype=torch.int64), torch.empty(0)

    def votes(self, images: Tensor, held: Samples, n_classes: int) -> Tensor:
        """`votes` of the held samples on images, by the pixels of small versions, (N, C)."""
        cosines = unit_pixels(images) @ self._pixels_of(held).T
        return votes(cosines, held.labels, n_classes, NEIGHBOURS, SOFTNESS)

    def _pixels_of(self, held: Samples) -> Tensor:
        if held.images.is_cuda:
            return unit_pixels(held.images)
        if not torch.equal(self._arrivals, held.arrivals):
            place = {arrival: row for row, arrival in enumerate(self._arrivals.tolist())}
            arrivals = held.arrivals.tolist()
            if new := [row for row, arrival in enumerate(arrivals) if arrival not in place]:
                place |= {arrivals[row]: len(self._arrivals) + n for n, row in enumerate(new)}
                self._pixels = torch.cat([self._pixels, unit_pixels(held.images[new])])
            self._pixels = self._pixels.index_select(0, torch.tensor([place[arrival] for arrival in arrivals]))
            self._arrivals = held.arrivals
        return self._pixels


def judge(
    x: Tensor, y: Tensor, predicted: Tensor, held: Samples, known: Tensor, n_seen: int, noise: NoiseEstimate,
    neighbours: Neighbours,
) -> Verdict:  # fmt: skip
    """Judge arriving labels by the probabilities `predicted` for their images, (N, C), and by the held samples.

    `known`, bool (N,), tells which labels are of classes that the learner has seen; `n_seen` is how many it has.
    The estimate of the noise is used, and learns from the verdict.
    """
    said = predicted
    if len(held):
        said = torch.stack([said, neighbours.votes(x, held, predicted.shape[1])]).nanmean(dim=0)
    found = posterior(said, noise.likelihoods(y, predicted.shape[1], n_seen))
    learnt = torch.where(known[:, None] & found.isfinite(), found, 0.0)
    noise.note(learnt, y, predicted)
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


def votes_on_each_other(unit: Tensor, labels: Tensor, n_classes: int, n_neighbours: int, softness: float) -> Tensor:
    """The `votes` on each sample of all others, (N, C), by vectors of length 1, (N, d), and class ids, (N,)."""
    found = []
    for rows in torch.arange(len(unit), device=unit.device).split(AT_ONCE):
        cosines = (unit[rows] @ unit.T).scatter_(1, rows[:, None], -torch.inf)  # none votes on itself
        found.append(votes(cosines, labels, n_classes, n_neighbours, softness))
    return torch.cat(found)


def unit_pixels(images: Tensor) -> Tensor:
    """The pixels of small versions of images, or vectors, less their mean and of length 1, (N, d)."""
    if images.ndim == 4:  # of a large image every step-th pixel will do
        step = max(1, min(images.shape[2:]) // (2 * SIDE))
        images = images[:, :, ::step, ::step].float()
        cells = [-(-side // SIDE) for side in images.shape[2:]]
        images = F.avg_pool2d(images, cells, ceil_mode=True)
    flat = images.flatten(1)
    return F.normalize(flat - flat.mean(dim=1, keepdim=True), dim=1)


def posterior(p: Tensor, likelihoods: Tensor) -> Tensor:
    """Probability of each class, (N, C), given the image and the label that came.

    `p` (N, C) is the probability by the image alone, `likelihoods` (N, C) that of the label, given the class.
    """
    joint = p * likelihoods
    return joint / joint.sum(dim=1, keepdim=True)
